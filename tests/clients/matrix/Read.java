// Reads events, one per line, with the classes of one release of the Java SDK, as its client reads them.

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.datatype.jsr310.JavaTimeModule;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

public class Read {
  public static void main(String[] arguments) throws Exception {
    var mapper = new ObjectMapper().registerModule(new JavaTimeModule());
    mapper.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    var classes = classes();
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).lines().toList();
    var wrong = 0;
    for (var line : lines) {
      try {
        var event = mapper.readTree(line);
        var type = classes.apply(event.get("type").asText());
        if (type != null) {
          mapper.treeToValue(event, type);
        }
      } catch (Exception error) {
        System.out.println(error.getMessage() + ": " + line);
        wrong++;
      }
    }
    System.exit(wrong > 0 ? 1 : 0);
  }

  // The class of an event by its type. Releases before 0.3.0 have a table, and pass over types that are not in it.
  private static Function<String, Class<?>> classes() throws Exception {
    for (var name : List.of("com.github.copilot.generated.SessionEvent", "com.github.copilot.sdk.generated.SessionEvent")) {
      try {
        var type = Class.forName(name);
        return ignored -> type;
      } catch (ClassNotFoundException error) {
        // Another release.
      }
    }
    var table = Class.forName("com.github.copilot.sdk.events.SessionEventParser").getDeclaredField("TYPE_MAP");
    table.setAccessible(true);
    var types = (Map<?, ?>) table.get(null);
    return type -> (Class<?>) types.get(type);
  }
}
