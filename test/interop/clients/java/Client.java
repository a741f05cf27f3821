// SPDX-License-Identifier: Apache-2.0

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;

/** The client of the interop matrix that uses java.net.http. Arguments: VERSION BASE_URL DIRECTORY. */
final class Client {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

    private final HttpClient.Version version;
    private final String base;
    private final Path directory;

    private Client(String[] arguments) {
        version = HttpClient.Version.valueOf(arguments[0]);
        base = arguments[1];
        directory = Path.of(arguments[2]);
    }

    public static void main(String[] arguments) throws IOException {
        Client client = new Client(arguments);
        BufferedReader names = new BufferedReader(new InputStreamReader(System.in));
        for (String name = names.readLine(); name != null; name = names.readLine()) {
            System.out.println(client.answer(name));
        }
        // Threads of the library must not keep the process.
        System.exit(0);
    }

    private String answer(String name) {
        Tally tally = new Tally();
        try {
            run(name, newClient(), tally);
            return tally.json();
        } catch (Exception e) {
            return "{\"error\":\"" + e.toString().replaceAll("[\"\\\\\\p{Cntrl}]", " ") + "\"}";
        }
    }

    private HttpClient newClient() {
        return HttpClient.newBuilder().version(version).connectTimeout(PATIENCE).build();
    }

    private void run(String name, HttpClient client, Tally tally) throws Exception {
        switch (name) {
            case "get100" -> tally.addAll(small(client, 100));
            case "down" -> tally.add(get(client, "/large"));
            case "chunked-down" -> tally.add(get(client, "/chunked"));
            case "up" -> tally.add(put(client, "up", BodyPublishers.ofFile(file("large")), false));
            case "chunked-up" -> tally.add(put(client, "chunked-up", ofUnknownLength(file("chunked")), false));
            case "expect" -> tally.add(put(client, "expect", BodyPublishers.ofFile(file("chunked")), true));
            case "head" -> head(client, tally);
            case "not-modified" -> notModified(client, tally);
            case "concurrent" -> concurrent(tally);
            default -> throw new IllegalArgumentException("unknown case " + name);
        }
    }

    private Path file(String name) {
        return directory.resolve(name);
    }

    /** A publisher of a stream knows no length, and so the library chunks. */
    private static BodyPublisher ofUnknownLength(Path file) {
        return BodyPublishers.ofInputStream(() -> {
            try {
                return Files.newInputStream(file);
            } catch (IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        });
    }

    private HttpRequest.Builder request(String path) {
        return HttpRequest.newBuilder(URI.create(base + path)).timeout(PATIENCE);
    }

    private static HttpResponse<byte[]> send(HttpClient client, HttpRequest.Builder request) throws Exception {
        return client.send(request.build(), BodyHandlers.ofByteArray());
    }

    private HttpResponse<byte[]> get(HttpClient client, String path) throws Exception {
        return send(client, request(path));
    }

    private HttpResponse<byte[]> put(HttpClient client, String name, BodyPublisher body, boolean expect) throws Exception {
        return send(client, request("/upload/" + name).expectContinue(expect).PUT(body));
    }

    private static String small(int n) {
        return String.format("/small/%02d", n);
    }

    private List<HttpResponse<byte[]>> small(HttpClient client, int count) throws Exception {
        List<HttpResponse<byte[]>> responses = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            responses.add(get(client, small(n)));
        }
        return responses;
    }

    private void head(HttpClient client, Tally tally) throws Exception {
        HttpRequest.Builder head = request("/large").method("HEAD", BodyPublishers.noBody());
        HttpResponse<byte[]> response = tally.add(send(client, head));
        tally.length = response.headers().firstValueAsLong("Content-Length").orElse(-1);
        tally.add(get(client, small(0)));
    }

    private void notModified(HttpClient client, Tally tally) throws Exception {
        HttpResponse<byte[]> first = tally.add(get(client, small(0)));
        String etag = first.headers().firstValue("ETag").orElseThrow();
        tally.add(send(client, request(small(0)).header("If-None-Match", etag)));
        tally.add(get(client, small(0)));
    }

    /** Eight clients make 25 requests each. */
    private void concurrent(Tally tally) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(8);
        try {
            Callable<List<HttpResponse<byte[]>>> one = () -> small(newClient(), 25);
            for (Future<List<HttpResponse<byte[]>>> responses : threads.invokeAll(java.util.Collections.nCopies(8, one))) {
                tally.addAll(responses.get());
            }
        } finally {
            threads.shutdown();
        }
    }

    /** What came of the requests of a case. */
    private static final class Tally {
        private final Map<Integer, Integer> statuses = new TreeMap<>();
        private final ByteArrayOutputStream bodies = new ByteArrayOutputStream();
        private long length;

        private HttpResponse<byte[]> add(HttpResponse<byte[]> response) {
            statuses.merge(response.statusCode(), 1, Integer::sum);
            bodies.writeBytes(response.body());
            return response;
        }

        private void addAll(List<HttpResponse<byte[]>> responses) {
            responses.forEach(this::add);
        }

        private String json() throws Exception {
            String counts = statuses.entrySet().stream()
                .map(e -> "\"" + e.getKey() + "\":" + e.getValue())
                .collect(Collectors.joining(",", "{", "}"));
            byte[] digest = MessageDigest.getInstance("SHA-256").digest(bodies.toByteArray());
            return String.format("{\"statuses\":%s,\"sha256\":\"%s\",\"length\":%d}", counts, HexFormat.of().formatHex(digest), length);
        }
    }
}
