import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Counts by key and window, in Kafka Streams without a broker.
 *
 * Arguments: a file, and a folder for the state. Each line of the file is a case, in two parts with a tab between them: `session,GAP` or
 * `hopping,SIZE,EVERY`, and the events in the order in which they come, as KEY@TIME. All times are milliseconds. A line of the answer: number of
 * the case, key, start, end, count.
 */
public class StreamsWindows {
    private static final Duration GRACE = Duration.ofDays(10_000);

    public static void main(String[] arguments) throws Exception {
        List<String> cases = Files.readAllLines(Path.of(arguments[0]));
        for (int number = 0; number < cases.size(); number++) {
            String[] parts = cases.get(number).split("\t");
            count(number, parts[0].split(","), parts[1].split(" "), arguments[1] + "/" + number);
        }
    }

    private static void count(int number, String[] windows, String[] events, String state) {
        boolean session = windows[0].equals("session");
        StreamsBuilder builder = new StreamsBuilder();
        var grouped = builder.stream("events", Consumed.with(Serdes.String(), Serdes.String())).groupByKey();
        if (session) {
            grouped.windowedBy(SessionWindows.ofInactivityGapAndGrace(duration(windows[1]), GRACE))
                    .count(Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("counts").withStoreType(Materialized.StoreType.IN_MEMORY));
        } else {
            grouped.windowedBy(TimeWindows.ofSizeAndGrace(duration(windows[1]), GRACE).advanceBy(duration(windows[2])))
                    .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("counts").withStoreType(Materialized.StoreType.IN_MEMORY));
        }
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "windows");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state);
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings)) {
            var topic = driver.createInputTopic("events", new StringSerializer(), new StringSerializer());
            var keys = new TreeSet<String>();
            for (String event : events) {
                String[] parts = event.split("@");
                topic.pipeInput(parts[0], "", Long.parseLong(parts[1]));
                keys.add(parts[0]);
            }
            if (session) {
                SessionStore<String, Long> store = driver.getSessionStore("counts");
                for (String key : keys) {
                    try (var rows = store.fetch(key)) {
                        rows.forEachRemaining(row -> print(number, row.key, row.value));
                    }
                }
            } else {
                WindowStore<String, Long> store = driver.getWindowStore("counts");
                try (var rows = store.all()) {
                    rows.forEachRemaining(row -> print(number, row.key, row.value));
                }
            }
        }
    }

    private static Duration duration(String milliseconds) {
        return Duration.ofMillis(Long.parseLong(milliseconds));
    }

    private static void print(int number, Windowed<String> of, long count) {
        System.out.println(String.join(",", "" + number, of.key(), "" + of.window().start(), "" + of.window().end(), "" + count));
    }
}
