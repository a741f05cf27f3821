// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/golden"
)

const pageIntroduction = `# Metrics

All that ` + "`/metrics`" + ` of the admin address has, beside the Go runtime's and the process's own. Names that begin with ` + "`envoy_`" + ` mean what they mean in Envoy.
` + "`/stats`" + ` and ` + "`xlb get stats`" + ` have the same under dotted names: ` + "`xlb.requests.fast`, `cluster.NAME.upstream_rq_total`" + `. The agent of
` + "`xlb heels`" + ` has [metrics of its own](heels.md#verdicts). Clusters of one name in several [views](operations.md#views) count together; ` + "`alt_stat_name`" + ` tells them apart. Which to watch says [operations.md](operations.md#what-to-watch).

<!-- Written by: go test ./internal/metrics -run Page -update -->

| metric | labels | |
|---|---|---|
`

// ofDesc takes what prometheus.Desc tells of itself apart: name, help and labels.
var ofDesc = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*?)"(?:, unit: "")?, constLabels: \{\}, variableLabels: \{([^}]*)\}\}$`)

func TestPageListsEveryMetric(t *testing.T) {
	var page strings.Builder
	page.WriteString(pageIntroduction)
	for _, d := range described {
		m := ofDesc.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("prometheus.Desc has another form: %s", d)
		}
		labels := strings.ReplaceAll(m[3], ",", "`, `")
		if labels != "" {
			labels = "`" + labels + "`"
		}
		fmt.Fprintf(&page, "| `%s` | %s | %s |\n", m[1], labels, m[2])
	}
	golden.Compare(t, "../../docs/metrics.md", page.String())
}
