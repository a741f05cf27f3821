// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/heels/traffic"
)

// trafficCommand as first argument makes a client or a server of this program.
const trafficCommand = "heels-traffic"

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == trafficCommand {
		if err := traffic.Main(context.Background(), os.Args[2], os.Args[3], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(harness.Main(m))
}
