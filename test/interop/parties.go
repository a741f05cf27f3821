// SPDX-License-Identifier: Apache-2.0

package interop

import "slices"

// party is a client or a server of the matrix.
type party struct {
	name string
	// command is the program, a path below this folder, and its first arguments.
	command []string
}

// clients are the rows of the matrix, in the order of their names' families.
var clients = []party{
	{"curl", []string{"clients/curl/run"}},
	{"wget", []string{"clients/wget/run"}},
	{"http.client", []string{"clients/python/run", "use_http_client"}},
	{"requests", []string{"clients/python/run", "use_requests"}},
	{"httpx", []string{"clients/python/run", "use_httpx"}},
	{"aiohttp", []string{"clients/python/run", "use_aiohttp"}},
	{"node http", []string{"clients/node/run", "use_http.js"}},
	{"undici", []string{"clients/node/run", "use_undici.js"}},
	{"go", []string{"clients/go/run"}},
	{"java", []string{"clients/java/run", "HTTP_1_1"}},
	// The default of java.net.http: it offers an upgrade to HTTP/2.
	{"java h2c", []string{"clients/java/run", "HTTP_2"}},
	{"hyper", []string{"clients/hyper/run"}},
	{"ab", []string{"clients/ab/run"}},
	{"wrk", []string{"clients/wrk/run"}},
	{"fortio", []string{"clients/fortio/run"}},
}

// servers are the columns of the matrix.
var servers = []party{
	{"nginx", []string{"servers/nginx/run"}},
	{"apache", []string{"servers/apache/run"}},
	{"haproxy", []string{"servers/haproxy/run"}},
	{"gunicorn", []string{"servers/gunicorn/run"}},
	{"uvicorn", []string{"servers/uvicorn/run"}},
	{"node", []string{"servers/node/run"}},
	{"go", []string{"servers/go/run"}},
	{"jetty", []string{"servers/jetty/run"}},
	{"hyper", []string{"servers/hyper/run"}},
}

// inability says which cases a program cannot do, and why. One side is set.
type inability struct {
	client, server string
	cases          []string
	reason         string
}

var inabilities = []inability{
	{client: "curl", cases: []string{trailerUp}, reason: "the command has no option for trailers"},
	{client: "wget", cases: []string{chunkedUp, trailerUp}, reason: "uploads files with Content-Length only"},
	{client: "wget", cases: []string{trailerDown}, reason: "discards trailers"},
	{client: "http.client", cases: []string{trailerUp, trailerDown}, reason: "sends no trailers, discards those received"},
	{client: "requests", cases: []string{trailerUp, trailerDown}, reason: "sends no trailers, discards those received"},
	{client: "httpx", cases: []string{trailerUp, trailerDown}, reason: "sends no trailers, discards those received"},
	{client: "aiohttp", cases: []string{trailerUp, trailerDown}, reason: "sends no trailers, discards those received"},
	{client: "undici", cases: []string{trailerUp}, reason: "sends no trailers"},
	{client: "undici", cases: []string{expect}, reason: "refuses the header Expect"},
	{client: "java", cases: []string{trailerUp, trailerDown}, reason: "sends no trailers, discards those received"},
	{client: "java h2c", cases: []string{trailerUp, trailerDown}, reason: "sends no trailers, discards those received"},
	{client: "ab", cases: []string{chunkedDown, trailerDown, chunkedUp, trailerUp, expect}, reason: "speaks HTTP/1.0"},
	{client: "ab", cases: []string{head, notModified}, reason: "mixes no methods on a connection, reports no headers"},
	{
		client: "wrk", cases: []string{up, chunkedUp, trailerUp, trailerDown, head, notModified, expect},
		reason: "a generator of load: no uploads from files, no trailers, no HEAD (it waits for the body)",
	},
	{client: "fortio", cases: []string{chunkedUp, trailerUp}, reason: "sends payloads with Content-Length only"},
	{client: "fortio", cases: []string{head, trailerDown, notModified, expect}, reason: "its \"curl\" makes one request, and prints neither status nor fields"},

	{server: "nginx", cases: []string{trailerUp}, reason: "discards trailers of requests"},
	{server: "apache", cases: []string{trailerUp, trailerDown}, reason: "discards trailers of requests, sends none"},
	{server: "haproxy", cases: []string{trailerUp, trailerDown}, reason: "Lua services see and send no trailers"},
	{server: "gunicorn", cases: []string{trailerUp, trailerDown}, reason: "WSGI has no trailers"},
	{server: "uvicorn", cases: []string{trailerUp, trailerDown}, reason: "implements no trailers"},
}

// cannot returns why a pair cannot do a case, or "".
func cannot(client, server, name string) string {
	for _, i := range inabilities {
		if (i.client == client || i.server == server) && slices.Contains(i.cases, name) {
			return i.client + i.server + " " + i.reason
		}
	}
	return ""
}

// comparesLengths are the clients that do not show what they received: they, or
// their scripts, compare it, and report how many bytes were right.
var comparesLengths = []string{"ab", "wrk", "fortio"}

// sendsTrailersUnasked are the servers that send trailers without the header TE.
var sendsTrailersUnasked = []string{"nginx", "node", "go", "jetty"}

// triesAddress are the clients that make a connection only to see whether they can.
var triesAddress = []string{"wrk"}

// sees100 are the clients that tell whether 100 Continue has arrived.
var sees100 = []string{"curl", "node http", "go"}
