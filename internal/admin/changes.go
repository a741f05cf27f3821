// SPDX-License-Identifier: Apache-2.0

package admin

import "net/http"

// changes are the pages that change something. Envoy asks for POST there, too. A page in a browser can send one without reading the answer, so what comes
// from another origin is refused.
func (a *api) changes() []page {
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusForbidden, "Origin, Sec-Fetch-Site: a page of another origin has sent this, and may change nothing\n")
	}))
	guarded := func(serve http.HandlerFunc) http.HandlerFunc { return guard.Handler(serve).ServeHTTP }
	return []page{
		{LogPath, "POST: the level of the log, and with ?level=debug|info|warning|error|off another one (?format=text|json)", guarded(a.logging)},
		{ReleaseWorkloadPath, "POST: \"xlb release\", of the network namespace with the inode number ?netns= (JSON)", guarded(a.workload(a.source.ReleaseWorkload))},
		{JoinWorkloadPath, "POST: \"xlb join\", likewise (JSON)", guarded(a.workload(a.source.JoinWorkload))},
	}
}

// Changes reports whether a request, if it is granted, changes something of the daemon.
func Changes(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	switch r.URL.Path {
	case LogPath:
		return r.URL.Query().Has("level")
	case ReleaseWorkloadPath, JoinWorkloadPath:
		return true
	}
	return false
}
