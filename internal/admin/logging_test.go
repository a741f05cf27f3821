// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestLevelOfTheLogIsShownAndChanged(t *testing.T) {
	tests := []struct {
		method, target string
		status         int
		want           string
		level          slog.Level
	}{
		{"POST", "/logging", 200, "active loggers:\n  xlb: info\n", slog.LevelInfo},
		{"POST", "/logging?level=debug", 200, "active loggers:\n  xlb: debug\n", slog.LevelDebug},
		{"POST", "/logging?level=trace", 200, "active loggers:\n  xlb: debug\n", slog.LevelDebug},
		{"POST", "/logging?level=warning", 200, "active loggers:\n  xlb: warning\n", slog.LevelWarn},
		{"POST", "/logging?level=critical&format=text", 200, "active loggers:\n  xlb: error\n", slog.LevelError},
		{"POST", "/logging?level=off&format=json", 200, "{\n \"level\": \"off\"\n}\n", 100},
		// As Envoy has it.
		{"POST", "/logging?level=", 200, "active loggers:\n  xlb: info\n", slog.LevelInfo},
		{"POST", "/logging?level=DEBUG", 400, `parameter "level": "DEBUG" is no level; use one of debug, trace, info, warning, warn, error, critical, off` + "\n", slog.LevelInfo},
		{"POST", "/logging?level=info&level=debug", 400, "parameter \"level\": given 2 times; give it once\n", slog.LevelInfo},
		{"POST", "/logging?level=debug&format=xml", 400, "parameter \"format\": \"xml\" is none of its values; /logging answers with text, json\n", slog.LevelInfo},
		{"POST", "/logging?paths=admin:debug", 400, "parameter \"paths\": not supported: the log has one level, and no loggers with levels of their own; use level, as in /logging?level=debug\n", slog.LevelInfo},
		{"POST", "/logging?level=debug&admin=debug", 400, "parameter \"admin\": not supported: the log has one level, and no loggers with levels of their own; use level, as in /logging?level=debug\n", slog.LevelInfo},
		{"POST", "/logging?level=%zz", 400, "query \"level=%zz\": invalid URL escape \"%zz\"; want name=value, with & between them and other characters as %XX\n", slog.LevelInfo},
		{"GET", "/logging?level=debug", 405, "Method Not Allowed\n", slog.LevelInfo},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.target, func(t *testing.T) {
			s := &state{}
			status, body := ask(t, s, tt.method, tt.target)
			if status != tt.status || body != tt.want || s.level != tt.level {
				t.Errorf("got %d %q and level %v, want %d %q and %v", status, body, s.level, tt.status, tt.want, tt.level)
			}
		})
	}
	if _, index := ask(t, &state{}, "GET", "/"); !strings.Contains(index, "\n/logging ") {
		t.Errorf("the index does not list it:\n%s", index)
	}
}

// A page in a browser may send a POST to any address, if it need not read the answer.
func TestPagesOfOtherOriginsChangeNothing(t *testing.T) {
	targets := []string{"/logging?level=debug", "/xlb/workloads/release?netns=7", "/xlb/workloads/join?netns=7"}
	for _, header := range []http.Header{
		{"Origin": {"http://evil.example"}}, {"Origin": {"null"}}, {"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}},
	} {
		for _, target := range targets {
			s := &state{}
			r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:9901"+target, nil)
			r.Header = header
			w := httptest.NewRecorder()
			handlerOf(s).ServeHTTP(w, r)
			if w.Code != http.StatusForbidden || s.level != slog.LevelInfo || len(s.changed) > 0 {
				t.Errorf("%s, %v: got %d, level %v and calls %q, want 403 and no change", target, header, w.Code, s.level, s.changed)
			}
		}
	}
}
