import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;

/**
 * Reads a topic as a KTable, with `isolation.level=read_committed`, until it has processed all that was in the topic at the start.
 *
 * Arguments: state folder, bootstrap, topic. A line of the answer: a key of the table, a tab, and the value that a query by this key finds. The query
 * asks the partition in which Kafka Streams looks for the key, so it finds nothing if its record is in another one. Keys and values have no tabs
 * and line ends, as in JSON.
 */
public class StreamsReader {
    private static final BlockingQueue<Map<TopicPartition, OffsetAndMetadata>> COMMITS = new LinkedBlockingQueue<>();

    /** Tells of each commit, which follows the processing of the records before its offsets. */
    public static class Commits implements ConsumerInterceptor<byte[], byte[]> {
        @Override
        public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
            return records;
        }

        @Override
        public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {
            COMMITS.add(offsets);
        }

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> settings) {}
    }

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[1], topic = arguments[2];
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "streams-" + System.nanoTime());
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_SERVER_CONFIG, "localhost:1"); // Nobody connects to it, but queries by key need to know who they are.
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.ISOLATION_LEVEL_CONFIG), "read_committed");
        settings.put(StreamsConfig.mainConsumerPrefix(ConsumerConfig.INTERCEPTOR_CLASSES_CONFIG), Commits.class.getName());

        StreamsBuilder builder = new StreamsBuilder();
        builder.table(topic, Materialized.as("results"));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
                KafkaStreams streams = new KafkaStreams(builder.build(), settings)) {
            Map<TopicPartition, Long> missing = ends(admin, topic);
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                System.exit(1);
                return null;
            });
            streams.start();
            while (!missing.isEmpty()) {
                COMMITS.take().forEach((partition, to) -> missing.computeIfPresent(partition, (of, end) -> to.offset() < end ? end : null));
            }
            print(streams);
        }
    }

    private static Map<TopicPartition, Long> ends(Admin admin, String topic) throws Exception {
        var partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions();
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        partitions.forEach(one -> asked.put(new TopicPartition(topic, one.partition()), OffsetSpec.latest()));
        Map<TopicPartition, Long> ends = new HashMap<>();
        admin.listOffsets(asked).all().get().forEach((partition, found) -> ends.put(partition, found.offset()));
        ends.values().removeIf(end -> end == 0);
        return ends;
    }

    private static void print(KafkaStreams streams) {
        var asked = StoreQueryParameters.fromNameAndType("results", QueryableStoreTypes.<String, String>keyValueStore());
        PrintStream answer = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try (var rows = streams.store(asked).all()) {
            rows.forEachRemaining(row -> {
                int partition = streams.queryMetadataForKey("results", row.key, new StringSerializer()).partition();
                ReadOnlyKeyValueStore<String, String> there = streams.store(asked.withPartition(partition));
                answer.println(row.key + "\t" + there.get(row.key));
            });
        }
    }
}
