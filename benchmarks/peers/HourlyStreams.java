import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Hourly count, sum and maximum by key, in Kafka Streams: exactly once, in RocksDB and its changelog topic.
 *
 * Arguments: state folder, commit interval (ms), threads, bootstrap, topic, file for the answer. Ends when all that was in the topic at the
 * start has been committed, and says at each commit how many records are new in it. A line of the answer: key, hour (ms), count, sum, maximum.
 * Two further arguments join it with a table before: the topic of a global table, and the number of its rows. Each amount is multiplied by the
 * value of the customer, modulo that number.
 */
public class HourlyStreams {
    record Event(long at, double amount, int quantity, long customer) {
        Event times(Integer factor) {
            return new Event(at, factor == null ? 0 : amount * factor, quantity, customer);
        }
    }

    record Sums(long events, double amount, int most) {
        Sums with(Event event) {
            return new Sums(events + 1, amount + event.amount, Math.max(most, event.quantity));
        }
    }

    private static final JsonFactory JSON = new JsonFactory();
    private static boolean joins;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[3], topic = arguments[4];
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
        Serde<Event> events = Serdes.serdeFrom((name, event) -> null, (name, bytes) -> parse(bytes));
        Serde<Sums> sums = Serdes.serdeFrom((name, value) -> write(value), (name, bytes) -> read(bytes));
        KStream<String, Event> stream = builder.stream(
                topic, Consumed.with(Serdes.String(), events).withTimestampExtractor((record, time) -> ((Event) record.value()).at));
        joins = arguments.length > 6;
        if (joins) {
            long rows = Long.parseLong(arguments[7]);
            var factors = builder.globalTable(
                    arguments[6], Consumed.with(Serdes.Long(), Serdes.Integer()), Materialized.<Long, Integer>as(Stores.inMemoryKeyValueStore("factors")));
            stream = stream.leftJoin(factors, (shop, event) -> event.customer % rows, Event::times);
        }
        stream.groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofHours(1), Duration.ofHours(23)))
                .aggregate(
                        () -> new Sums(0, 0, Integer.MIN_VALUE),
                        (key, event, known) -> known.with(event),
                        Materialized.<String, Sums, WindowStore<Bytes, byte[]>>as("hours").withKeySerde(Serdes.String()).withValueSerde(sums));

        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
                KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            Map<TopicPartition, Long> ends = ends(admin, topic);
            streams.start();
            long all = ends.values().stream().mapToLong(Long::longValue).sum(), told = 0;
            while (told < all) {
                if (streams.state() == KafkaStreams.State.ERROR) throw new IllegalStateException("Kafka Streams has failed");
                long committed = committed(admin, application);
                if (committed > told) System.out.println(committed - told + " records");
                System.out.flush();
                told = committed;
                Thread.sleep(100);
            }
            Files.writeString(Path.of(arguments[5]), answer(streams));
        }
    }

    private static Event parse(byte[] bytes) {
        long at = 0;
        double amount = 0;
        int quantity = 0;
        long customer = 0;
        try (JsonParser parser = JSON.createParser(bytes)) {
            parser.nextToken();
            while (parser.nextToken() == JsonToken.FIELD_NAME) {
                String name = parser.currentName();
                parser.nextToken();
                switch (name) {
                    case "at" -> at = parser.getLongValue();
                    case "amount" -> amount = parser.getDoubleValue();
                    case "quantity" -> quantity = parser.getIntValue();
                    case "customer" -> {
                        if (joins) customer = parser.getLongValue();
                    }
                    default -> parser.skipChildren();
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return new Event(at, amount, quantity, customer);
    }

    private static byte[] write(Sums sums) {
        return ByteBuffer.allocate(20).putLong(sums.events).putDouble(sums.amount).putInt(sums.most).array();
    }

    private static Sums read(byte[] bytes) {
        if (bytes == null) return null;
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        return new Sums(buffer.getLong(), buffer.getDouble(), buffer.getInt());
    }

    private static Map<TopicPartition, Long> ends(Admin admin, String topic) throws Exception {
        var partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions();
        var asked = partitions.stream().collect(Collectors.toMap(one -> new TopicPartition(topic, one.partition()), one -> OffsetSpec.latest()));
        Map<TopicPartition, Long> ends = new HashMap<>();
        admin.listOffsets(asked).all().get().forEach((partition, found) -> ends.put(partition, found.offset()));
        return ends;
    }

    private static long committed(Admin admin, String group) throws Exception {
        var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        return offsets.values().stream().mapToLong(offset -> offset == null ? 0 : offset.offset()).sum();
    }

    private static String answer(KafkaStreams streams) {
        var store = streams.store(StoreQueryParameters.fromNameAndType("hours", QueryableStoreTypes.<String, Sums>windowStore()));
        StringBuilder text = new StringBuilder();
        try (var rows = store.all()) {
            rows.forEachRemaining(row -> text.append(String.join(
                    ",", row.key.key(), "" + row.key.window().start(), "" + row.value.events, "" + row.value.amount, row.value.most + "\n")));
        }
        return text.toString();
    }
}
