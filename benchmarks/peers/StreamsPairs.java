import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.StreamJoined;
import org.apache.kafka.streams.kstream.ValueJoiner;

/**
 * Joins two streams by their keys, in Kafka Streams without a broker: an inner, left or outer join with its default stores, or that of `left` with
 * itself (`self`).
 *
 * Arguments: a file, and a folder for the state. Each line of the file is a case, in two parts with a tab between them: `BEFORE,AFTER,GRACE,KIND`, and
 * the events in the order in which they come: SIDE:KEY@TIME, where the side is `left` or `right`, and without a key for null. All times are
 * milliseconds. A line of the answer: number of the case, those of the left and of the right event in this order (or null), time of the pair.
 */
public class StreamsPairs {
    public static void main(String[] arguments) throws Exception {
        List<String> cases = Files.readAllLines(Path.of(arguments[0]));
        for (int number = 0; number < cases.size(); number++) {
            String[] parts = cases.get(number).split("\t");
            join(number, parts[0].split(","), parts[1].split(" "), arguments[1] + "/" + number);
        }
    }

    private static void join(int number, String[] windows, String[] events, String state) {
        StreamsBuilder builder = new StreamsBuilder();
        var strings = Serdes.String();
        KStream<String, String> left = builder.stream("left", Consumed.with(strings, strings));
        KStream<String, String> right = builder.stream("right", Consumed.with(strings, strings));
        var within = JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, duration(windows[2])).before(duration(windows[0])).after(duration(windows[1]));
        ValueJoiner<String, String, String> both = (one, other) -> one + "," + other;
        var stores = StreamJoined.with(strings, strings, strings);
        KStream<String, String> pairs = switch (windows[3]) {
            case "left" -> left.leftJoin(right, both, within, stores);
            case "self" -> left.join(left, both, within, stores);
            case "outer" -> left.outerJoin(right, both, within, stores);
            default -> left.join(right, both, within, stores);
        };
        pairs.to("pairs", Produced.with(strings, strings));

        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "pairs");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state);
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings)) {
            for (int event = 0; event < events.length; event++) {
                int name = events[event].indexOf(':'), at = events[event].lastIndexOf('@');
                String key = events[event].substring(name + 1, at);
                driver.createInputTopic(events[event].substring(0, name), new StringSerializer(), new StringSerializer())
                        .pipeInput(key.isEmpty() ? null : key, "" + event, Long.parseLong(events[event].substring(at + 1)));
            }
            for (var pair : driver.createOutputTopic("pairs", new StringDeserializer(), new StringDeserializer()).readRecordsToList()) {
                System.out.println(number + "," + pair.value() + "," + pair.timestamp());
            }
        }
    }

    private static Duration duration(String milliseconds) {
        return Duration.ofMillis(Long.parseLong(milliseconds));
    }
}
