// SPDX-License-Identifier: Apache-2.0

import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import java.sql.PreparedStatement;
import java.sql.ResultSet;

/** Lists the latest transactions of an account. */
public final class TransactionHistory {
    private static final int LATEST = 20;

    /** Each half is read backwards through its index. */
    private static final String READ = "SELECT * FROM ("
            + "(SELECT id, source, target, amount FROM transactions WHERE source = ? ORDER BY id DESC LIMIT " + LATEST + ")"
            + " UNION ALL (SELECT id, source, target, amount FROM transactions WHERE target = ? ORDER BY id DESC LIMIT " + LATEST + ")"
            + ") AS both_ways ORDER BY id DESC LIMIT " + LATEST;

    private TransactionHistory() {}

    public static void main(String[] args) throws Exception {
        Service service = new Service();
        service.route("/history/", request -> {
            request.own(request.rest);
            JsonArray list = service.database(connection -> {
                try (PreparedStatement statement = connection.prepareStatement(READ)) {
                    statement.setString(1, request.rest);
                    statement.setString(2, request.rest);
                    try (ResultSet rows = statement.executeQuery()) {
                        return listed(rows);
                    }
                }
            });
            JsonObject answer = new JsonObject();
            answer.add("transactions", list);
            return answer;
        });
        service.start();
    }

    private static JsonArray listed(ResultSet rows) throws java.sql.SQLException {
        JsonArray list = new JsonArray();
        while (rows.next()) {
            JsonObject one = new JsonObject();
            one.addProperty("id", rows.getLong(1));
            one.addProperty("from", rows.getString(2));
            one.addProperty("to", rows.getString(3));
            one.addProperty("amount", rows.getLong(4));
            list.add(one);
        }
        return list;
    }
}
