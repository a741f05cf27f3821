// SPDX-License-Identifier: Apache-2.0

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What readers think of a book. Version v1 has their words only; v2 and v3 ask ratings for their stars as well, over connections that are
 * kept, and show them in black and in red.
 */
public final class Reviews {
    private static final String[] READERS = {"Anna", "Bertil"};
    private static final String[] TEXTS = {
        "I could not put it down, and missed my stop twice.", "Long in the middle, but the end makes up for all of it.",
    };
    private static final Pattern PATH = Pattern.compile("/reviews/(\\d{1,9})");
    private static final Pattern RATING = Pattern.compile("\"(\\w+)\":(\\d)\\b");
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    private final String version;
    private final String ratings;
    private final HttpClient client =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(PATIENCE).build();

    private Reviews(String version, String ratings) {
        this.version = version;
        this.ratings = ratings;
    }

    public static void main(String[] args) throws IOException {
        // Otherwise the server's answers wait for acknowledgements of their heads.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        String[] listen = System.getenv("LISTEN").split(":");
        Reviews reviews = new Reviews(System.getenv("VERSION"), System.getenv("RATINGS_ADDR"));
        HttpServer server = HttpServer.create(new InetSocketAddress(listen[0], Integer.parseInt(listen[1])), 128);
        server.setExecutor(Executors.newFixedThreadPool(32));
        server.createContext("/health", exchange -> answer(exchange, 200, "{}"));
        server.createContext("/reviews/", reviews::serve);
        server.start();
    }

    private void serve(HttpExchange exchange) throws IOException {
        Matcher path = PATH.matcher(exchange.getRequestURI().getPath());
        if (!path.matches()) {
            answer(exchange, 404, "{\"problem\":\"ask for /reviews/NUMBER\"}");
            return;
        }
        String book = path.group(1);
        StringBuilder json = new StringBuilder();
        json.append("{\"id\":").append(book).append(",\"version\":\"").append(version).append('"');
        if (!version.equals("v1")) {
            json.append(",\"colour\":\"").append(version.equals("v2") ? "black" : "red").append('"');
        }
        Map<String, String> stars = version.equals("v1") ? Map.of() : stars(book, exchange);
        json.append(",\"reviews\":[");
        for (int i = 0; i < READERS.length; i++) {
            json.append(i == 0 ? "" : ",").append("{\"reader\":\"").append(READERS[i]).append("\",\"text\":\"").append(TEXTS[i]).append('"');
            if (stars == null) {
                json.append(",\"problem\":\"The stars are not available\"");
            } else if (stars.containsKey(READERS[i])) {
                json.append(",\"stars\":").append(stars.get(READERS[i]));
            }
            json.append('}');
        }
        answer(exchange, 200, json.append("]}").toString());
    }

    /** Returns the stars by reader, or null when ratings does not answer. */
    private Map<String, String> stars(String book, HttpExchange exchange) {
        String id = exchange.getRequestHeaders().getFirst("X-Request-Id");
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + ratings + "/ratings/" + book))
                .header("X-Request-Id", id == null ? "none" : id)
                .timeout(PATIENCE)
                .build();
        try {
            HttpResponse<String> response = client.send(request, HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() != 200) {
                return null;
            }
            Map<String, String> stars = new HashMap<>();
            for (Matcher m = RATING.matcher(response.body()); m.find(); ) {
                stars.put(m.group(1), m.group(2));
            }
            return stars;
        } catch (IOException e) {
            return null;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return null;
        }
    }

    private static void answer(HttpExchange exchange, int status, String json) throws IOException {
        byte[] body = json.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }
}
