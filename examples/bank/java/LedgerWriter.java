// SPDX-License-Identifier: Apache-2.0

import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.sql.PreparedStatement;
import java.time.Duration;

/** Writes transactions into the ledger, each once, after it has asked balancereader whether there is enough money. */
public final class LedgerWriter {
    private static final String OUTSIDE = "0000000000";
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    /** The transaction and both balances, in one statement: all or nothing. Accounts are taken in order, so that no two statements wait for each other. */
    private static final String WRITE = "WITH written AS (INSERT INTO transactions (uuid, source, target, amount) VALUES (?, ?, ?, ?)"
            + " ON CONFLICT (uuid) DO NOTHING RETURNING source, target, amount)"
            + " INSERT INTO balances (account, amount) SELECT account, change FROM ("
            + "SELECT source AS account, -amount AS change FROM written UNION ALL SELECT target, amount FROM written) AS changes"
            + " ORDER BY account ON CONFLICT (account) DO UPDATE SET amount = balances.amount + EXCLUDED.amount";

    private final Service service;
    private final String balances = System.getenv("BALANCEREADER_ADDR");
    private final HttpClient client =
            HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(PATIENCE).build();

    private LedgerWriter(Service service) {
        this.service = service;
    }

    public static void main(String[] args) throws Exception {
        Service service = new Service();
        LedgerWriter writer = new LedgerWriter(service);
        service.route("/transactions", request -> {
            if (!request.method.equals("POST")) {
                throw new Service.Refusal(405, "only POST");
            }
            return writer.write(request);
        });
        service.start();
    }

    private JsonObject write(Service.Request request) throws Service.Refusal, java.sql.SQLException {
        JsonObject sent = request.sent();
        String uuid = text(sent, "uuid");
        String source = text(sent, "from");
        String target = text(sent, "to");
        long amount = amount(sent);
        if (source.equals(target)) {
            throw new Service.Refusal(400, "both accounts are the same");
        }
        if (source.equals(OUTSIDE)) {
            request.own(target);
        } else {
            request.own(source);
            if (balance(request) < amount) {
                throw new Service.Refusal(409, "the account does not hold enough");
            }
        }
        int changed = service.database(connection -> {
            try (PreparedStatement statement = connection.prepareStatement(WRITE)) {
                statement.setString(1, uuid);
                statement.setString(2, source);
                statement.setString(3, target);
                statement.setLong(4, amount);
                return statement.executeUpdate();
            }
        });
        JsonObject answer = new JsonObject();
        answer.addProperty("new", changed > 0);
        return answer;
    }

    private static String text(JsonObject sent, String name) throws Service.Refusal {
        if (!sent.has(name) || !sent.get(name).isJsonPrimitive()) {
            throw new Service.Refusal(400, "need " + name);
        }
        return sent.get(name).getAsString();
    }

    private static long amount(JsonObject sent) throws Service.Refusal {
        try {
            long amount = Long.parseLong(text(sent, "amount"));
            if (amount > 0) {
                return amount;
            }
        } catch (NumberFormatException e) {
            // Refused below.
        }
        throw new Service.Refusal(400, "the amount is a number of cents above 0");
    }

    /** Asks balancereader what the sender's account holds, in cents. */
    private long balance(Service.Request request) throws Service.Refusal {
        HttpRequest question = HttpRequest.newBuilder(URI.create("http://" + balances + "/balances/" + request.account))
                .header("Authorization", "Bearer " + request.token)
                .timeout(PATIENCE)
                .build();
        try {
            HttpResponse<String> response = client.send(question, HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() == 200) {
                return JsonParser.parseString(response.body()).getAsJsonObject().get("balance").getAsLong();
            }
            throw new Service.Refusal(502, "balancereader answers " + response.statusCode());
        } catch (IOException e) {
            throw new Service.Refusal(502, "balancereader does not answer: " + e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new Service.Refusal(503, "the service ends");
        }
    }
}
