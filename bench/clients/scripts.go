// SPDX-License-Identifier: Apache-2.0

package clients

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/wrk"
)

// routesScript is appended to wrk's script where requests ask for routes.
const routesScript = "routes.lua"

// AskedRoutes is the file in which the script finds what to ask for: lines of a path, and a header's value where one decides.
const AskedRoutes = "routes.txt"

// MaxAsked bounds the requests that a client takes turns with. They are spread over the whole table.
const MaxAsked = 1000

// maxAskedBytes bounds the paths of these requests, which each thread of wrk has in memory.
const maxAskedBytes = 4 << 20

//go:embed routes.lua
var routesLua []byte

// postScript is appended to wrk's script where requests have bodies.
const postScript = "post.lua"

// AskForRoutes writes the requests for routes that clients take turns with.
func AskForRoutes(dir string, routes []cases.Route) error {
	var asked strings.Builder
	n := min(len(routes), MaxAsked, maxAskedBytes/len(routes[0].Path))
	for i := range n {
		r := routes[i*len(routes)/n]
		fmt.Fprintln(&asked, strings.TrimSpace(r.Path+" "+r.Header))
	}
	return os.WriteFile(filepath.Join(dir, AskedRoutes), []byte(asked.String()), 0o644)
}

// WritePostScript writes the script of requests with bodies of so many bytes.
func WritePostScript(dir string, size int) error {
	// wrk formats the request once, before it begins.
	post := fmt.Sprintf("\nwrk.method, wrk.body = \"POST\", string.rep(\"x\", %d)\n", size)
	return os.WriteFile(filepath.Join(dir, postScript), slices.Concat(wrk.Script, []byte(post)), 0o644)
}
