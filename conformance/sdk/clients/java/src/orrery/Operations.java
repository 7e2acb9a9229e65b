package orrery;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.UUID;

/**
 * The operations of a client program, reported a line each. See conformance/lib/programs/report.py.
 *
 * <p>An operation that throws is reported as failed, and the program goes on.
 */
final class Operations {
  static final String ENDPOINT = System.getenv("ORRERY_ENDPOINT");
  static final String KEY = System.getenv("ORRERY_KEY");

  /** One operation and the assertions about its answer. */
  interface Work {
    void run() throws Exception;
  }

  private final PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
  private boolean failed;
  final String database = "clients-" + UUID.randomUUID().toString().substring(0, 13);

  /** Begins the program of a client, whose version is read from its package. */
  Operations(String group, String artifact) throws Exception {
    String file = "/META-INF/maven/" + group + "/" + artifact + "/pom.properties";
    Properties properties = new Properties();
    try (InputStream in = Operations.class.getResourceAsStream(file)) {
      properties.load(in);
    }
    say(Map.of("client", artifact, "version", properties.getProperty("version")));
  }

  /** Begins the program of a client whose package does not tell its version: the name of the archive does. */
  Operations(Class<?> ofClient) throws Exception {
    Path archive = Path.of(ofClient.getProtectionDomain().getCodeSource().getLocation().toURI());
    // As Maven names them: the artifact, a hyphen, the version, `.jar`.
    String name = archive.getFileName().toString();
    String artifact = archive.getParent().getParent().getFileName().toString();
    say(Map.of("client", artifact, "version", name.substring(artifact.length() + 1, name.length() - 4)));
  }

  void operation(String name, Work work) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("operation", name);
    try {
      work.run();
      line.put("passed", true);
    } catch (Exception | AssertionError problem) {
      problem.printStackTrace();
      failed = true;
      line.put("passed", false);
      line.put("message", String.valueOf(problem));
    }
    say(line);
  }

  /** Ends the process: with code 0 if every operation passed. */
  void end() {
    say(Map.of("end", true));
    System.exit(failed ? 1 : 0);
  }

  /** Asserts that two values are equal. */
  static void equal(Object found, Object expected) {
    if (!Objects.equals(found, expected)) throw new AssertionError(found + " is not " + expected);
  }

  /** Asserts that work throws an error of this kind, and returns the error. */
  static <E extends Exception> E refused(Class<E> kind, Work work) throws Exception {
    try {
      work.run();
    } catch (Exception error) {
      if (kind.isInstance(error)) return kind.cast(error);
      throw error;
    }
    throw new AssertionError("not refused");
  }

  private void say(Map<String, Object> line) {
    try {
      out.println(new ObjectMapper().writeValueAsString(line));
    } catch (com.fasterxml.jackson.core.JsonProcessingException impossible) {
      throw new IllegalStateException(impossible);
    }
  }
}
