package orrery;

import java.io.OutputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.X509Certificate;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

/** Trust in the certificate of the server, which the server signs itself: what a user does with keytool. */
final class ServerTrust {
  private ServerTrust() {}

  /** Makes every later connection of this process trust the certificate that the server shows now. */
  static void begin(String endpoint) throws Exception {
    char[] password = "changeit".toCharArray();
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, password);
    store.setCertificateEntry("server", shownBy(URI.create(endpoint)));
    Path file = Files.createTempFile("trust", ".p12");
    file.toFile().deleteOnExit();
    try (OutputStream out = Files.newOutputStream(file)) {
      store.store(out, password);
    }
    System.setProperty("javax.net.ssl.trustStore", file.toString());
    System.setProperty("javax.net.ssl.trustStorePassword", new String(password));
    System.setProperty("javax.net.ssl.trustStoreType", "PKCS12");
  }

  private static X509Certificate shownBy(URI server) throws Exception {
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, new TrustManager[] {new AnyCertificate()}, null);
    try (SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket(server.getHost(), server.getPort())) {
      socket.startHandshake();
      return (X509Certificate) socket.getSession().getPeerCertificates()[0];
    }
  }

  /** Trusts every certificate, for the one connection that reads it. */
  private static final class AnyCertificate implements X509TrustManager {
    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type) {}

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type) {}

    @Override
    public X509Certificate[] getAcceptedIssuers() {
      return new X509Certificate[0];
    }
  }
}
