import java.nio.ByteBuffer;
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
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Hourly count, sum and maximum by key, in Kafka Streams: exactly once, in RocksDB and its changelog topic. Without a cache, each event is an update,
 * which goes to a topic as JSON.
 *
 * Arguments: state folder, commit interval (ms), threads, bootstrap, topic, and the topic of the updates; without the last one, they go nowhere. Ends
 * when all that was in the topic at the start has been committed, and says at each commit how many records are new in it, or in several of fewer than
 * 20,000 records together. The value of an event: its time (ms) and its amount, as a long and an int.
 */
public class UpdatedStreams {
    record Event(long at, int amount) {}

    record Sums(long events, long amount, int most) {
        Sums with(Event event) {
            return new Sums(events + 1, amount + event.amount, Math.max(most, event.amount));
        }
    }

    private static final int REPORTED = 20_000;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[3], topic = arguments[4];
        String application = "streams-" + System.nanoTime();
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, application);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[0] + "-" + application);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, arguments[1]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, arguments[2]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");

        StreamsBuilder builder = new StreamsBuilder();
        Serde<Event> events = Serdes.serdeFrom((name, event) -> null, (name, bytes) -> parse(bytes));
        Serde<Sums> sums = Serdes.serdeFrom((name, value) -> write(value), (name, bytes) -> read(bytes));
        var updates = builder.stream(topic, Consumed.with(Serdes.String(), events).withTimestampExtractor((record, time) -> ((Event) record.value()).at))
                .groupByKey()
                .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofHours(1), Duration.ofHours(23)))
                .aggregate(
                        () -> new Sums(0, 0, Integer.MIN_VALUE),
                        (key, event, known) -> known.with(event),
                        Materialized.<String, Sums, WindowStore<Bytes, byte[]>>as("hours")
                                .withKeySerde(Serdes.String())
                                .withValueSerde(sums)
                                .withCachingDisabled());
        if (arguments.length > 5) {
            updates.toStream()
                    .map((key, value) -> KeyValue.pair(json(key), json(value)))
                    .to(arguments[5], Produced.with(Serdes.String(), Serdes.String()));
        }

        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
                KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            long all = end(admin, topic), told = 0;
            streams.start();
            while (told < all) {
                if (streams.state() == KafkaStreams.State.ERROR) throw new IllegalStateException("Kafka Streams has failed");
                long committed = committed(admin, application);
                if (committed - told >= REPORTED || committed >= all) {
                    System.out.println(committed - told + " records");
                    System.out.flush();
                    told = committed;
                }
                Thread.sleep(100);
            }
        }
    }

    private static Event parse(byte[] bytes) {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        return new Event(buffer.getLong(), buffer.getInt());
    }

    private static String json(Windowed<String> key) {
        var window = key.window();
        return "{\"window_start\":\"" + window.startTime() + "\",\"window_end\":\"" + window.endTime() + "\",\"shop\":\"" + key.key() + "\"}";
    }

    private static String json(Sums sums) {
        return "{\"orders\":" + sums.events + ",\"takings\":" + sums.amount + ",\"dearest\":" + sums.most + "}";
    }

    private static byte[] write(Sums sums) {
        return ByteBuffer.allocate(20).putLong(sums.events).putLong(sums.amount).putInt(sums.most).array();
    }

    private static Sums read(byte[] bytes) {
        if (bytes == null) return null;
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        return new Sums(buffer.getLong(), buffer.getLong(), buffer.getInt());
    }

    private static long end(Admin admin, String topic) throws Exception {
        var partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions();
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        partitions.forEach(one -> asked.put(new TopicPartition(topic, one.partition()), OffsetSpec.latest()));
        return admin.listOffsets(asked).all().get().values().stream().mapToLong(found -> found.offset()).sum();
    }

    private static long committed(Admin admin, String group) throws Exception {
        var offsets = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        return offsets.values().stream().mapToLong(offset -> offset == null ? 0 : offset.offset()).sum();
    }
}
