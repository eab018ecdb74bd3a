import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * Counts the rows of a table of orders by their status, and joins it with a table of payments (by its key) and with one of customers (by a foreign
 * key), in Kafka Streams without a broker.
 *
 * Arguments: a file, and a folder for the state. Each line of the file is a case, in two parts with a tab between them: `table` or
 * `versioned,RETENTION`, and the records in the order in which they come: TABLE:KEY=VALUE@TIME, where the table is `orders`, `payments` or `customers`,
 * without a value for a row that is deleted. The value of an order is STATUS/CUSTOMER, and nothing stands for null. All times are milliseconds. In
 * place of a record, `!` asks for all results as they stand there. A line of the answer: number of the case, number of the `!` in it, result, key, value.
 */
public class StreamsTables {
    private static final List<String> RESULTS = List.of("counts", "inner", "left", "outer", "foreign_inner", "foreign_left");

    public static void main(String[] arguments) throws Exception {
        List<String> cases = Files.readAllLines(Path.of(arguments[0]));
        for (int number = 0; number < cases.size(); number++) {
            String[] parts = cases.get(number).split("\t");
            keep(number, parts[0].split(","), parts[1].split(" "), arguments[1] + "/" + number);
        }
    }

    private static void keep(int number, String[] kind, String[] records, String state) {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> orders = table(builder, kind, "orders");
        KTable<String, String> payments = table(builder, kind, "payments");
        KTable<String, String> customers = table(builder, kind, "customers");
        ValueJoiner<String, String, String> both = (order, other) -> (order == null ? "" : order) + "/" + (other == null ? "" : other);
        orders.groupBy((key, order) -> KeyValue.pair(part(order, 0), key), Grouped.with(Serdes.String(), Serdes.String()))
                .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")));
        orders.join(payments, both, result("inner"));
        orders.leftJoin(payments, both, result("left"));
        orders.outerJoin(payments, both, result("outer"));
        orders.join(customers, (String order) -> part(order, 1), both, result("foreign_inner"));
        orders.leftJoin(customers, (String order) -> part(order, 1), both, result("foreign_left"));

        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "tables");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings)) {
            int asked = 0;
            for (String record : records) {
                if (record.equals("!")) {
                    print(number + "," + asked++, driver);
                } else {
                    send(driver, record);
                }
            }
        }
    }

    private static KTable<String, String> table(StreamsBuilder builder, String[] kind, String name) {
        return builder.table(name, Materialized.as(kind[0].equals("versioned")
                ? Stores.persistentVersionedKeyValueStore(name, Duration.ofMillis(Long.parseLong(kind[1])))
                : Stores.inMemoryKeyValueStore(name)));
    }

    private static Materialized<String, String, KeyValueStore<Bytes, byte[]>> result(String name) {
        return Materialized.as(Stores.inMemoryKeyValueStore(name));
    }

    private static void send(TopologyTestDriver driver, String record) {
        int name = record.indexOf(':'), is = record.indexOf('='), at = record.lastIndexOf('@');
        String value = record.substring(is + 1, at);
        driver.createInputTopic(record.substring(0, name), new StringSerializer(), new StringSerializer())
                .pipeInput(record.substring(name + 1, is), value.isEmpty() ? null : value, Long.parseLong(record.substring(at + 1)));
    }

    private static void print(String asked, TopologyTestDriver driver) {
        for (String name : RESULTS) {
            try (var rows = driver.<String, Object>getKeyValueStore(name).all()) {
                rows.forEachRemaining(row -> System.out.println(asked + "," + name + "," + row.key + "," + row.value));
            }
        }
    }

    private static String part(String order, int which) {
        String part = order.split("/", -1)[which];
        return part.isEmpty() ? null : part;
    }
}
