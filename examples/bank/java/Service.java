// SPDX-License-Identifier: Apache-2.0

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParseException;
import com.google.gson.JsonParser;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.Base64;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;

/** What the ledger's services share: an HTTP server, its answers, tokens, and connections to the database. */
final class Service {
    /** How many connections a process keeps to its database. */
    private static final int CONNECTIONS = 4;
    /** How long a database may take to come up, in milliseconds. */
    private static final long PATIENCE = 20_000;

    private final HttpServer server;
    private final PublicKey key;
    private final BlockingQueue<Connection> idle = new ArrayBlockingQueue<>(CONNECTIONS);

    /** An answer with a status that says what is wrong with the request. */
    static final class Refusal extends Exception {
        final int status;

        Refusal(int status, String problem) {
            super(problem);
            this.status = status;
        }
    }

    /** What answers a request. */
    interface Handler {
        JsonObject answer(Request request) throws Refusal, SQLException;
    }

    /** What is done with the database. */
    interface Work<T> {
        T with(Connection connection) throws SQLException;
    }

    /** A request whose sender is known. */
    static final class Request {
        final String token;
        /** The number of the sender's account. */
        final String account;
        /** What follows the handler's own path. */
        final String rest;
        final String method;
        private final String body;

        private Request(String token, String account, String rest, String method, String body) {
            this.token = token;
            this.account = account;
            this.rest = rest;
            this.method = method;
            this.body = body;
        }

        JsonObject sent() throws Refusal {
            try {
                return JsonParser.parseString(body).getAsJsonObject();
            } catch (JsonParseException | IllegalStateException e) {
                throw new Refusal(400, "need a JSON object");
            }
        }

        void own(String other) throws Refusal {
            if (!account.equals(other)) {
                throw new Refusal(403, "this is somebody else's account");
            }
        }
    }

    Service() throws Exception {
        // Otherwise the server's answers wait for acknowledgements of their heads.
        System.setProperty("sun.net.httpserver.nodelay", "true");
        key = publicKey(Path.of(System.getenv("PUBLIC_KEY")));
        for (int i = 0; i < CONNECTIONS; i++) {
            idle.add(connect());
        }
        String[] listen = System.getenv("LISTEN").split(":");
        server = HttpServer.create(new InetSocketAddress(listen[0], Integer.parseInt(listen[1])), 128);
        server.setExecutor(Executors.newFixedThreadPool(32));
        server.createContext("/health", exchange -> send(exchange, 200, new JsonObject()));
    }

    private static PublicKey publicKey(Path file) throws IOException, GeneralSecurityException {
        String text = Files.readString(file).replaceAll("-----[A-Z ]+-----|\\s", "");
        return KeyFactory.getInstance("RSA").generatePublic(new X509EncodedKeySpec(Base64.getDecoder().decode(text)));
    }

    private static Connection connect() throws SQLException, InterruptedException {
        String url = "jdbc:postgresql://" + System.getenv("LEDGER_ADDR") + "/postgres?sslmode=disable";
        long deadline = System.currentTimeMillis() + PATIENCE;
        while (true) {
            try {
                return DriverManager.getConnection(url, "postgres", "");
            } catch (SQLException e) {
                if (System.currentTimeMillis() > deadline) {
                    throw e;
                }
                Thread.sleep(100);
            }
        }
    }

    /** Has requests below a path answered by the handler. */
    void route(String path, Handler handler) {
        server.createContext(path, exchange -> serve(exchange, path, handler));
    }

    void start() {
        server.start();
    }

    /** Works with a connection that nobody else uses meanwhile. */
    <T> T database(Work<T> work) throws SQLException, Refusal {
        Connection connection;
        try {
            connection = idle.take();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new Refusal(503, "the service ends");
        }
        try {
            return work.with(connection);
        } finally {
            idle.add(connection);
        }
    }

    private void serve(HttpExchange exchange, String path, Handler handler) throws IOException {
        try {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            String header = exchange.getRequestHeaders().getFirst("Authorization");
            String token = header == null ? "" : header.replaceFirst("^Bearer ", "");
            String rest = exchange.getRequestURI().getPath().substring(path.length());
            Request request = new Request(token, account(token), rest, exchange.getRequestMethod(), body);
            send(exchange, 200, handler.answer(request));
        } catch (Refusal e) {
            send(exchange, e.status, problem(e));
        } catch (SQLException e) {
            send(exchange, 500, problem(e));
        }
    }

    private static JsonObject problem(Exception e) {
        JsonObject value = new JsonObject();
        value.addProperty("problem", String.valueOf(e.getMessage()));
        return value;
    }

    private static void send(HttpExchange exchange, int status, JsonObject value) throws IOException {
        byte[] body = value.toString().getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
        exchange.close();
    }

    /** Returns the account of a token (RFC 7519) that the bank has signed with RS256 and that is still good. */
    private String account(String token) throws Refusal {
        String[] parts = token.split("\\.", -1);
        try {
            if (parts.length != 3 || !"RS256".equals(member(parts[0], "alg").getAsString())) {
                throw new Refusal(401, "need a token signed with RS256");
            }
            Signature signature = Signature.getInstance("SHA256withRSA");
            signature.initVerify(key);
            signature.update((parts[0] + "." + parts[1]).getBytes(StandardCharsets.US_ASCII));
            if (!signature.verify(Base64.getUrlDecoder().decode(parts[2]))) {
                throw new Refusal(401, "the token's signature is wrong");
            }
            if (member(parts[1], "exp").getAsLong() < System.currentTimeMillis() / 1000) {
                throw new Refusal(401, "the token's time is over");
            }
            return member(parts[1], "account").getAsString();
        } catch (GeneralSecurityException | RuntimeException e) {
            throw new Refusal(401, "the token is not well formed");
        }
    }

    private static JsonElement member(String part, String name) {
        String json = new String(Base64.getUrlDecoder().decode(part), StandardCharsets.UTF_8);
        return JsonParser.parseString(json).getAsJsonObject().get(name);
    }
}
