import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.github.copilot.sdk.CopilotClient;
import com.github.copilot.sdk.generated.SessionEvent;
import com.github.copilot.sdk.json.CopilotClientOptions;
import com.github.copilot.sdk.json.PermissionHandler;
import com.github.copilot.sdk.json.ResumeSessionConfig;
import com.github.copilot.sdk.json.SessionConfig;
import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class ClientTest {
    private static CopilotClient start(Path home) throws Exception {
        var environment = new HashMap<>(System.getenv());
        environment.put("COPILOT_HOME", home.toString());
        var options = new CopilotClientOptions()
                .setCliPath(System.getenv("LODGE_BIN")).setCwd(home.toString()).setEnvironment(environment);
        var client = new CopilotClient(options);
        client.start().get();
        return client;
    }

    @Test
    void aTurnIsAnsweredListedAndResumed(@TempDir Path home) throws Exception {
        String id;
        List<SessionEvent> events = java.util.Collections.synchronizedList(new ArrayList<>());
        try (var client = start(home)) {
            assertEquals(3, client.getStatus().get().getProtocolVersion());
            var session = client.createSession(new SessionConfig()
                    .setOnPermissionRequest(PermissionHandler.APPROVE_ALL).setOnEvent(events::add)).get();
            id = session.getSessionId();
            assertEquals("hello there", session.sendAndWait("say hello there").get().getData().content());
            var answer = session.sendAndWait("call bash {\"command\":\"echo from the shell\"}").get();
            assertTrue(answer.getData().content().contains("from the shell"));
            assertEquals(id, client.listSessions().get().get(0).getSessionId());
        }
        try (var client = start(home)) {
            var again = client.resumeSession(id,
                    new ResumeSessionConfig().setOnPermissionRequest(PermissionHandler.APPROVE_ALL)).get();
            assertTrue(again.getMessages().get().size() >= 10);
            assertEquals("again", again.sendAndWait("say again").get().getData().content());
        }
    }

    @Test
    void theExampleAppDoesItsFiveThings() throws Exception {
        var printed = new ByteArrayOutputStream();
        var out = System.out;
        System.setOut(new PrintStream(printed, true));
        try {
            App.main(new String[0]);
        } finally {
            System.setOut(out);
        }
        assertEquals(Files.readString(Path.of(System.getProperty("basedir"), "../../../examples/expected.txt")), printed.toString());
    }
}
