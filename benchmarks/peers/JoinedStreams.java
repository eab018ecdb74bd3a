import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;

/**
 * Joins two topics by their keys, in Kafka Streams: exactly once, in its default stores with their changelog topics. The pairs go to a third topic.
 *
 * Arguments: state folder, commit interval (ms), threads, bootstrap, topics of the left, of the right and of the pairs, and by how much a right
 * event may be later than the left one (ms). Ends when all that was in both topics at the start has been committed, and says at each commit how
 * many records are new in it. The value of a pair: the time of its later event (ms), both amounts, the text of the left one.
 */
public class JoinedStreams {
    record Event(long at, double amount, String shop) {
        byte[] with(Event right) {
            byte[] text = shop.getBytes(StandardCharsets.UTF_8);
            return ByteBuffer.allocate(24 + text.length).putLong(Math.max(at, right.at)).putDouble(amount).putDouble(right.amount).put(text).array();
        }
    }

    private static final JsonFactory JSON = new JsonFactory();
    private static final Duration GRACE = Duration.ofHours(1);

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[3], left = arguments[4], right = arguments[5];
        String application = "streams-" + System.nanoTime();
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[0]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, arguments[1]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        Serde<Event> parsed = Serdes.serdeFrom((name, event) -> null, (name, bytes) -> parse(bytes));
        Serde<Event> kept = Serdes.serdeFrom((name, event) -> write(event), (name, bytes) -> read(bytes));
        var consumed = Consumed.with(Serdes.String(), parsed).withTimestampExtractor((record, time) -> ((Event) record.value()).at);
        KStream<String, Event> events = builder.stream(left, consumed), others = builder.stream(right, consumed);
        var within = JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, GRACE).after(Duration.ofMillis(Long.parseLong(arguments[7])));
        events.join(others, Event::with, within, StreamJoined.with(Serdes.String(), kept, kept))
                .to(arguments[6], Produced.with(Serdes.String(), Serdes.ByteArray()));

        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
                KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            long all = end(admin, left) + end(admin, right), told = 0;
            streams.start();
            while (told < all) {
                if (streams.state() == KafkaStreams.State.ERROR) throw new IllegalStateException("Kafka Streams has failed");
                long committed = committed(admin, application, List.of(left, right));
                if (committed > told) System.out.println(committed - told + " records");
                System.out.flush();
                told = committed;
                Thread.sleep(100);
            }
        }
    }

    private static Event parse(byte[] bytes) {
        long at = 0;
        double amount = 0;
        String shop = "";
        try (JsonParser parser = JSON.createParser(bytes)) {
            parser.nextToken();
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                String name = parser.currentName();
                parser.nextToken();
                switch (name) {
                    case "at" -> at = parser.getLongValue();
                    case "amount" -> amount = parser.getDoubleValue();
                    case "shop" -> shop = parser.getText();
                    default -> parser.skipChildren();
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return new Event(at, amount, shop);
    }

    private static byte[] write(Event event) {
        byte[] text = event.shop.getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(16 + text.length).putLong(event.at).putDouble(event.amount).put(text).array();
    }

    private static Event read(byte[] bytes) {
        if (bytes == null) return null;
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        return new Event(buffer.getLong(), buffer.getDouble(), new String(bytes, 16, bytes.length - 16, StandardCharsets.UTF_8));
    }

    private static long end(Admin admin, String topic) throws Exception {
        var partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions();
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        partitions.forEach(one -> asked.put(new TopicPartition(topic, one.partition()), OffsetSpec.latest()));
        return admin.listOffsets(asked).all().get().values().stream().mapToLong(found -> found.offset()).sum();
    }

    private static long committed(Admin admin, String group, List<String> topics) throws Exception {
        var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        return offsets.entrySet().stream()
                .filter(one -> topics.contains(one.getKey().topic()) && one.getValue() != null)
                .mapToLong(one -> one.getValue().offset())
                .sum();
    }
}
