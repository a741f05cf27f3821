// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"strings"

	"github.com/xlb-project/xlb/internal/model"
)

// String is the whole image as text, for people and for golden files.
func (im *Image) String() string {
	var w strings.Builder
	for i := range im.Listeners {
		l := &im.Listeners[i]
		fmt.Fprintf(&w, "listener %q %s\n", l.Name, l.address())
		for _, a := range l.Own {
			fmt.Fprintf(&w, "  own %s\n", a)
		}
		if l.PassesBy {
			w.WriteString("  left alone\n")
			continue
		}
		l.Table.Dump(&w)
	}
	for i := range im.Clusters {
		im.Clusters[i].Dump(&w)
	}
	return w.String()
}

func (l *Listener) address() string {
	return (&model.Listener{Address: l.Address, Many: l.Many}).Destinations()
}
