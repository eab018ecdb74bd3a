import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.state.Stores;

/**
 * Joins events with the rows of a table, in Kafka Streams without a broker.
 *
 * Arguments: a file, and a folder for the state. Each line of the file is a case, in two parts with a tab between them: `left` or `inner` for a join with a
 * KTable, `left,RETENTION` or `inner,RETENTION` for one with a versioned KTable, or `global` for a left join with a GlobalKTable; and the records in the order
 * in which they come: rows as KEY=VALUE@TIME, without a value for one that is deleted, and events as KEY@TIME, without a key for null. All times are
 * milliseconds. A line of the answer: number of the case, number of the event, value.
 */
public class StreamsJoins {
    public static void main(String[] arguments) throws Exception {
        List<String> cases = Files.readAllLines(Path.of(arguments[0]));
        for (int number = 0; number < cases.size(); number++) {
            String[] parts = cases.get(number).split("\t");
            join(number, parts[0].split(","), parts[1].split(" "), arguments[1] + "/" + number);
        }
    }

    private static void join(int number, String[] kind, String[] records, String state) {
        StreamsBuilder builder = new StreamsBuilder();
        var consumed = Consumed.with(Serdes.String(), Serdes.String());
        KStream<String, String> events = builder.stream("events", consumed);
        ValueJoiner<String, String, String> line = (event, row) -> event + "," + (row == null ? "" : row);
        KStream<String, String> joined;
        if (kind[0].equals("global")) {
            var rows = builder.globalTable("rows", consumed, Materialized.<String, String>as(Stores.inMemoryKeyValueStore("joined")));
            joined = events.leftJoin(rows, (key, event) -> key, line);
        } else {
            KTable<String, String> rows = builder.table("rows", consumed, Materialized.as(kind.length > 1
                    ? Stores.persistentVersionedKeyValueStore("joined", Duration.ofMillis(Long.parseLong(kind[1])))
                    : Stores.inMemoryKeyValueStore("joined")));
            joined = kind[0].equals("inner") ? events.join(rows, line) : events.leftJoin(rows, line);
        }
        joined.foreach((key, found) -> System.out.println(number + "," + found));

        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "joins");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state);
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings)) {
            var ofEvents = driver.createInputTopic("events", new StringSerializer(), new StringSerializer());
            var ofRows = driver.createInputTopic("rows", new StringSerializer(), new StringSerializer());
            int event = 0;
            for (String record : records) {
                int at = record.lastIndexOf('@'), is = record.indexOf('=');
                long time = Long.parseLong(record.substring(at + 1));
                if (is >= 0) {
                    send(ofRows, record.substring(0, is), record.substring(is + 1, at), time);
                } else {
                    ofEvents.pipeInput(at > 0 ? record.substring(0, at) : null, "" + event++, time);
                }
            }
        }
    }

    private static void send(TestInputTopic<String, String> topic, String key, String value, long time) {
        topic.pipeInput(key, value.isEmpty() ? null : value, time);
    }
}
