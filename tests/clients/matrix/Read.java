// Reads events, one per line, with the classes of one release of the Java SDK, as its client reads them.

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.datatype.jsr310.JavaTimeModule;
import com.github.copilot.sdk.generated.SessionEvent;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;

public class Read {
  public static void main(String[] arguments) throws Exception {
    var mapper = new ObjectMapper().registerModule(new JavaTimeModule());
    mapper.configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8)).lines().toList();
    var wrong = 0;
    for (var line : lines) {
      try {
        mapper.treeToValue(mapper.readTree(line), SessionEvent.class);
      } catch (Exception error) {
        System.out.println(error.getMessage() + ": " + line);
        wrong++;
      }
    }
    System.exit(wrong > 0 ? 1 : 0);
  }
}
