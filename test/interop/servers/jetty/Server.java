// SPDX-License-Identifier: Apache-2.0

import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;

import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;

import org.eclipse.jetty.http.HttpFields;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.handler.AbstractHandler;

/** The server of the interop matrix that uses Jetty. Arguments: ADDRESS PORT DIRECTORY STORE. */
final class Server extends AbstractHandler {
    private final Path directory;
    private final Path store;

    private Server(String directory, String store) {
        this.directory = Path.of(directory);
        this.store = Path.of(store);
    }

    public static void main(String[] arguments) throws Exception {
        InetSocketAddress address = new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1]));
        org.eclipse.jetty.server.Server server = new org.eclipse.jetty.server.Server(address);
        server.setHandler(new Server(arguments[2], arguments[3]));
        server.start();
        server.join();
    }

    @Override
    public void handle(String path, Request request, HttpServletRequest servletRequest, HttpServletResponse response)
            throws IOException {
        request.setHandled(true);
        if (path.startsWith("/upload/")) {
            keep(store.resolve(path.substring("/upload/".length())), request, response);
        } else if (path.equals("/chunked")) {
            serveChunked(request.getResponse());
        } else {
            serveFile(path, request, response);
        }
    }

    private void serveFile(String path, Request request, HttpServletResponse response) throws IOException {
        Path file = directory.resolve(path.substring(1));
        String etag = '"' + file.getFileName().toString() + '"';
        response.setHeader("ETag", etag);
        if (etag.equals(request.getHeader("If-None-Match"))) {
            response.setStatus(HttpServletResponse.SC_NOT_MODIFIED);
            return;
        }
        response.setContentLengthLong(Files.size(file));
        if (!request.isHead()) {
            Files.copy(file, response.getOutputStream());
        }
    }

    /** Committed before its end, a response without a length is chunked. */
    private void serveChunked(Response response) throws IOException {
        HttpFields trailer = new HttpFields();
        trailer.put("X-Check", "interop");
        response.setHeader("Trailer", "X-Check");
        response.setTrailers(() -> trailer);
        OutputStream body = response.getOutputStream();
        Files.copy(directory.resolve("chunked"), body);
        body.close();
    }

    private static void keep(Path file, Request request, HttpServletResponse response) throws IOException {
        Files.copy(request.getInputStream(), file, StandardCopyOption.REPLACE_EXISTING);
        // Before the body has been read there is no trailer.
        HttpFields trailers = request.getTrailers();
        if (trailers != null && trailers.get("X-Check") != null) {
            Files.writeString(Path.of(file + ".trailer"), trailers.get("X-Check"));
        }
        response.setStatus(HttpServletResponse.SC_CREATED);
        response.setContentLength(0);
    }
}
