// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/xlb-project/xlb/internal/logging"
)

// LogPath is the page that shows and changes the level of the log, as Envoy's.
const LogPath = "/logging"

// LogLevel is what the page answers in JSON.
type LogLevel struct {
	// Level is debug, info, warning, error or off.
	Level string `json:"level"`
}

// logging is Envoy's /logging for one logger, "xlb". What sets the levels of single loggers is refused: there are none.
func (a *api) logging(w http.ResponseWriter, r *http.Request) {
	level, err := levelAsked(r)
	if err != nil {
		writeText(w, http.StatusBadRequest, err.Error()+"\n")
		return
	}
	if level != "" {
		// levelAsked has seen that it is one.
		l, _ := logging.Level(level)
		a.source.SetLogLevel(l)
	}
	now := LogLevel{Level: logging.Name(a.source.LogLevel())}
	if wantsJSON(r) {
		writeJSON(w, now)
		return
	}
	writeText(w, http.StatusOK, "active loggers:\n  xlb: "+now.Level+"\n")
}

// levelAsked is the name of the level that a request sets; empty: it sets none.
func levelAsked(r *http.Request) (string, error) {
	query, err := queryOf(r)
	if err != nil {
		return "", err
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != "level" && name != "format" {
			return "", fmt.Errorf("parameter %q: not supported: the log has one level, and no loggers with levels of their own; use level, as in %s?level=debug",
				name, LogPath)
		}
	}
	if err := understood(query, r.URL.Path, []parameter{{name: "level"}, formats("text", "json")}); err != nil {
		return "", err
	}
	level := query.Get("level")
	if level == "" {
		return "", nil
	}
	if _, err := logging.Level(level); err != nil {
		return "", fmt.Errorf("parameter \"level\": %w", err)
	}
	return level, nil
}
