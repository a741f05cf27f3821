// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/clients"
)

// lay gives the service the routes of a load, and the clients their requests.
func (b *Bed) lay(l cases.Load) error {
	b.site.Scan = l.Choice == cases.OfAll
	if l.Case != cases.Routes {
		b.site.Routes = nil
		if l.IsScaled() {
			return b.layScaled(l)
		}
		return nil
	}
	b.site.Routes = cases.RoutesOf(l.RouteKind, l.Routes)
	return clients.AskForRoutes(b.site.Dir, b.site.Routes)
}

// layScaled prepares a load of these cases.
func (b *Bed) layScaled(l cases.Load) error {
	if l.Case == cases.Sizes {
		return b.layBodies(l)
	}
	return nil
}

// layBodies gives the endpoints the response body of a load, or the clients its request body.
func (b *Bed) layBodies(l cases.Load) error {
	if l.Way == cases.WayResponse {
		return os.WriteFile(filepath.Join(b.site.Dir, "bodies", strconv.Itoa(l.Size)), bytes.Repeat([]byte("x"), l.Size), 0o644)
	}
	return clients.WritePostScript(b.site.Dir, l.Size)
}
