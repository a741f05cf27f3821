// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/xlb-project/xlb/bench/wrk"
)

// postScript is appended to wrk's script where requests have bodies.
const postScript = "post.lua"

// layBodies gives the endpoints the response body of a load, or the clients its request body.
func (b *bed) layBodies(l load) error {
	if l.Way == wayResponse {
		return os.WriteFile(filepath.Join(b.site.dir, "bodies", strconv.Itoa(l.Size)), bytes.Repeat([]byte("x"), l.Size), 0o644)
	}
	// wrk formats the request once, before it begins.
	post := fmt.Sprintf("\nwrk.method, wrk.body = \"POST\", string.rep(\"x\", %d)\n", l.Size)
	return os.WriteFile(filepath.Join(b.site.dir, postScript), slices.Concat(wrk.Script, []byte(post)), 0o644)
}
