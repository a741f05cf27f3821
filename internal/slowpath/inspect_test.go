// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model"
)

func TestInspectionEndsInTime(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		i := &model.Inspection{HTTP: true, Timeout: 20 * time.Millisecond, Continue: goesOn}
		for _, sent := range []string{"", "GET / HT"} {
			client, server := net.Pipe()
			d := newDownstream(New(Config{Active: nothing}), server, Session{Opened: time.Now()})
			if sent != "" {
				go func() { _, _ = client.Write([]byte(sent)) }()
			}
			opening, err := d.inspect(i)
			if goesOn && (err != nil || cmp.Diff(&model.Opening{}, opening) != "") || !goesOn && !errors.Is(err, errSilent) {
				t.Errorf("after %q, continue %t: %v, %v", sent, goesOn, opening, err)
			}
			d.release()
			client.Close()
			server.Close()
		}
	}
}
