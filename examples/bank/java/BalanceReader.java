// SPDX-License-Identifier: Apache-2.0

import com.google.gson.JsonObject;
import java.sql.PreparedStatement;
import java.sql.ResultSet;

/** Says what an account holds. */
public final class BalanceReader {
    private BalanceReader() {}

    public static void main(String[] args) throws Exception {
        Service service = new Service();
        service.route("/balances/", request -> {
            request.own(request.rest);
            long cents = service.database(connection -> {
                try (PreparedStatement statement = connection.prepareStatement("SELECT amount FROM balances WHERE account = ?")) {
                    statement.setString(1, request.rest);
                    try (ResultSet rows = statement.executeQuery()) {
                        return rows.next() ? rows.getLong(1) : 0L;
                    }
                }
            });
            JsonObject answer = new JsonObject();
            answer.addProperty("balance", cents);
            return answer;
        });
        service.start();
    }
}
