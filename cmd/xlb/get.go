// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
)

// resource is something that "xlb get" can show.
type resource struct {
	name string
	// header and rows make a table of an answer.
	header []string
	rows   func(answer []byte) ([][]string, error)
}

var resources = []resource{
	{"listeners", []string{"NAME", viewColumn, "ADDRESS", "PROTOCOL", "BOUND", "INTERCEPTED", "ROUTE TABLE", "ROUTES"}, each(listenerCells)},
	{"routes", []string{"LISTENER", viewColumn, "VIRTUAL HOST", "DOMAINS", "MATCH", "HEADERS", "CLUSTERS", "TIMEOUT"}, each(routeCells)},
	{"clusters", []string{"NAME", viewColumn, "TYPE", "POLICY", "ENDPOINTS", "HEALTHY", "CONNECTIONS", "OUTSTANDING", "REQUESTS"}, each(clusterCells)},
	{"endpoints", []string{"CLUSTER", viewColumn, "ADDRESS", "STATE", "PRIORITY", "LOCALITY", "WEIGHT", "SHARE", "OUTSTANDING", "REQUESTS", "FAST", "ERRORS"}, each(endpointCells)},
	{"pools", []string{"CLUSTER", viewColumn, "ENDPOINT", "IDLE", "LEASED", "CONNECTING"}, each(poolCells)},
	{"connections", []string{"CLIENT", "WORKLOAD", "SERVICE", "LISTENER", viewColumn, "PATH", "REASON", "OPENED"}, each(connectionCells)},
	{"workloads", []string{"ID", "NETNS", "PID", "POD", "CONTAINER", "NAME", viewColumn, "CONNECTIONS", "I-SOCKS", "IN PROGRESS", "REFUSED", "REQUESTS", "BYTES", "CPU", "STATE"}, each(workloadCells)},
	{"quotas", []string{"OF", "SIZE", "TAKEN", "MOST TAKEN BY", "REFUSED"}, each(quotaCells)},
	{"guards", []string{"OFF THE FAST PATH", "SINCE", "UNTIL", "WHY"}, each(guardCells)},
	{"delegate", []string{"STATE", "ENVOY", "PID", "USER", "LISTENERS", "MEMORY", "STARTS", "ENDS", "SINCE", "WHY"}, each(delegateCells)},
	{"config", []string{"KIND", viewColumn, "FROM", "STATE", "VERSION", "TAKEN", "REFUSED", "WHY"}, originRows},
	{"notes", []string{"RESOURCE", viewColumn, "FIELD", "ACCEPTED AND NOT DONE"}, each(noteCells)},
	{"stats", []string{"NAME", "VALUE"}, statRows},
}

func resourceNames() []string {
	names := make([]string, len(resources))
	for i, r := range resources {
		names[i] = r.name
	}
	return names
}

func findResource(args []string) (*resource, error) {
	names := strings.Join(resourceNames(), ", ")
	if len(args) != 1 {
		return nil, fmt.Errorf("get: %d resources named; name one of %s", len(args), names)
	}
	for i := range resources {
		if resources[i].name == args[0] {
			return &resources[i], nil
		}
	}
	return nil, fmt.Errorf("get: unknown resource %q; name one of %s", args[0], names)
}

func getCommand(e *env) *cobra.Command {
	var address string
	c := &cobra.Command{
		Use:   "get " + strings.Join(resourceNames(), "|"),
		Short: "Show what a running daemon does",
		Long: `Shows what a running daemon does, as it is now: from its admin API, which reads the
live state that kernel and daemon share. "stats" leaves out counters that are zero;
the JSON has them all. "config" says where the configuration comes from, what is in
force of it, and why what came last was refused, field by field. "workloads" are network
namespaces whose processes are balanced, or are known not to be, by the numbers that
"lsns -t net" shows, with the pods and containers that they are of, as far as these are
known; NAME is that of the namespace's file, where no pod is known; REQUESTS and BYTES are
what was carried for them since they are served, by cluster in JSON. "quotas" are the tables
that the workloads share, of which one may have as much as is left free, and who has most.
"delegate" is the Envoy beside the daemon (--delegate); the JSON has its listeners' sockets.

With --watch it asks again and again, until it is interrupted: text has the time above each
table, JSON has one line for each answer. After the first, an answer that fails is told of on
standard error, and asked for again.

The address is that of the daemon's --admin, or admin.address of its configuration; name it
here if it is not the default.`,
		Example: "  xlb get endpoints\n  xlb get config\n  xlb get stats --output json\n  xlb get endpoints --watch --interval 5s\n" +
			"  xlb get pools --admin 127.0.0.1:9902",
		ValidArgs: resourceNames(),
		Args: func(_ *cobra.Command, args []string) error {
			_, err := findResource(args)
			return err
		},
	}
	c.Flags().StringVar(&address, "admin", admin.DefaultAddress, adminUsage)
	watch := watchFlags(c)
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		r, err := findResource(args)
		if err != nil {
			return refused(err)
		}
		if err := watch.check(c); err != nil {
			return refused(err)
		}
		show := func(ctx context.Context, e *env, line bool) error {
			answer, err := askAdmin(ctx, address, "/xlb/"+r.name)
			if err != nil {
				return err
			}
			if line && *output == formatJSON {
				return writeLine(e.stdout, answer)
			}
			return r.print(e, *output, answer)
		}
		if !watch.on {
			return show(c.Context(), e, false)
		}
		return watch.repeat(c.Context(), e, *output, show)
	}
	return c
}

func (r *resource) print(e *env, output format, answer []byte) error {
	if output == formatJSON {
		_, err := e.stdout.Write(answer)
		return err
	}
	rows, err := r.rows(answer)
	if err != nil {
		return fmt.Errorf("get %s: the daemon's answer is not ours: %w; use the xlb of the daemon's version", r.name, err)
	}
	header, rows := withoutSharedViews(r.header, rows)
	return writeTable(e.stdout, header, rows)
}

// viewColumn is the header of the column with views. It is left out where all rows are of the shared one.
const viewColumn = "VIEW"

func withoutSharedViews(header []string, rows [][]string) (columns []string, cells [][]string) {
	at := slices.Index(header, viewColumn)
	if at < 0 || slices.ContainsFunc(rows, func(row []string) bool { return row[at] != "" && row[at] != orDash("") }) {
		return header, rows
	}
	for _, row := range rows {
		cells = append(cells, slices.Delete(row, at, at+1))
	}
	return slices.Delete(slices.Clone(header), at, at+1), cells
}

// checkAddress refuses what is neither host:port nor unix:PATH.
func checkAddress(address string) error {
	if path, is := socketOf(address); is {
		return checkSocket(path)
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("admin address %q: want host:port or unix:PATH; name that of a running daemon with --admin, as in %s", address, admin.DefaultAddress)
	}
	return nil
}

// reasonOf is a failure to ask without the URL.
func reasonOf(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err
	}
	return err
}

// askAdmin returns the body of an answer of 200.
func askAdmin(ctx context.Context, address, path string) ([]byte, error) {
	return sendAdmin(ctx, http.MethodGet, address, path)
}

// sendAdmin does so with a method.
func sendAdmin(ctx context.Context, method, address, path string) ([]byte, error) {
	if err := checkAddress(address); err != nil {
		return nil, refused(err)
	}
	ctx, cancel := context.WithTimeout(ctx, limits.AdminClient.Whole)
	defer cancel()
	client, host := adminClient(address)
	request, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, http.NoBody)
	if err != nil {
		return nil, refused(fmt.Errorf("admin address %q: want host:port: %w", address, err))
	}
	response, err := client.Do(request)
	if err != nil {
		if why := unreachable(address, err); why != nil {
			return nil, refused(why)
		}
		return nil, fmt.Errorf("admin address %s: %w; name that of a running daemon with --admin", address, reasonOf(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(limits.AdminClient.BodyBytes)))
	if err != nil {
		return nil, fmt.Errorf("read the admin API's answer: %w", err)
	}
	if response.StatusCode == http.StatusBadRequest {
		return nil, refused(errors.New(strings.TrimSpace(string(body))))
	}
	if response.StatusCode != http.StatusOK {
		return nil, &statusError{status: response.StatusCode, text: strings.TrimSpace(string(body)), asked: fmt.Sprintf("admin address %s: %s: %s", address, path, response.Status)}
	}
	return body, nil
}

// statusError is an answer of the admin API that is neither 200 nor 400.
type statusError struct {
	status      int
	text, asked string
}

func (e *statusError) Error() string { return e.asked + ": " + e.text }

// each makes a table of a list, one row for each item.
func each[T any](cells func(*T) []string) func([]byte) ([][]string, error) {
	return func(answer []byte) ([][]string, error) {
		var list []T
		if err := json.Unmarshal(answer, &list); err != nil {
			return nil, err
		}
		rows := make([][]string, 0, len(list))
		for i := range list {
			rows = append(rows, cells(&list[i]))
		}
		return rows, nil
	}
}

func listenerCells(l *admin.Listener) []string {
	return []string{l.Name, orDash(l.View), l.Address.String(), l.Protocol, orDash(l.Bound), yesNo(l.Intercepted), orDash(l.RouteTable), strconv.Itoa(l.Routes)}
}

func routeCells(r *admin.Route) []string {
	return []string{
		r.Listener, orDash(r.View), r.VirtualHost, strings.Join(r.Domains, ","), r.Match, orDash(strings.Join(r.Headers, " ")),
		strings.Join(r.Clusters, " "), r.Timeout,
	}
}

func clusterCells(c *admin.Cluster) []string {
	return []string{
		c.Name, viewsCell(c.View, c.Views), orDash(c.Type), orDash(c.Policy), number(c.Endpoints), number(c.Healthy), number(c.Connections),
		number(c.Outstanding), number(c.Requests),
	}
}

func endpointCells(p *admin.Endpoint) []string {
	return []string{
		p.Cluster, viewsCell(p.View, p.Views), p.Address.String(), orDash(p.State), number(uint64(p.Priority)), orDash(p.Locality()), number(uint64(p.Weight)),
		percent(p.Share), number(uint64(p.Outstanding)),
		number(p.Requests), number(p.Fast), number(p.Errors),
	}
}

func poolCells(p *admin.Pool) []string {
	return []string{p.Cluster, viewsCell(p.View, p.Views), p.Endpoint.String(), number(p.Idle), number(p.Leased), number(p.Connecting)}
}

func connectionCells(c *admin.Connection) []string {
	return []string{
		c.Client.String(), orDash(connectionWorkload(c)), c.Service.String(), orDash(c.Listener), orDash(c.View), c.Path, orDash(c.Reason), c.Opened.Format(time.RFC3339),
	}
}

func workloadCells(w *admin.Workload) []string {
	pid := ""
	if w.PID != 0 {
		pid = strconv.Itoa(w.PID)
	}
	return []string{
		number(uint64(w.ID)), number(w.Netns), orDash(pid), orDash(printable(podText(w))), orDash(printable(containerText(w))), orDash(fileText(w)), orDash(w.View),
		number(w.Connections), number(w.Uses[admin.QuotaISocks].Taken), number(w.Uses[admin.QuotaRequests].Taken), number(refusedAll(w)),
		number(w.Requests), number(w.RequestBytes + w.ResponseBytes), secondsText(w.SlowWorkSeconds + w.ProgramSeconds), stateText(w),
	}
}

// secondsText is a time for a table.
func secondsText(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) + "s" }

// refusedAll is how many entries of all tables a workload did not get, but those that no request misses: an idle connection that takes the place of another one,
// and series of its own.
func refusedAll(w *admin.Workload) (n uint64) {
	for of, use := range w.Uses {
		if of != admin.QuotaIdleConnections && of != admin.QuotaDestinations {
			n += use.Refused
		}
	}
	return n
}

func quotaCells(q *admin.Quota) []string {
	most := ""
	if q.Most != nil {
		most = fmt.Sprintf("%s (%d)", cmp.Or(printable(q.Most.Name), "workload "+number(uint64(q.Most.ID))), q.Most.Taken)
	}
	return []string{q.Of, number(q.Size), number(q.Taken), orDash(most), number(q.Refused)}
}

// podText names the pod of a workload; "": it has none, or that is not known.
func podText(w *admin.Workload) string {
	switch {
	case w.Pod != "":
		return w.PodNamespace + "/" + w.Pod
	case w.PodUID != "":
		return "pod " + w.PodUID
	}
	return ""
}

// shownDigits are those of a container's ID, as container runtimes show it.
const shownDigits = 12

func containerText(w *admin.Workload) string {
	return strings.TrimSpace(w.Runtime + " " + w.Container[:min(shownDigits, len(w.Container))])
}

// fileText is what the file of a network namespace is called. Of a pod's, which container runtimes name at random, the pod's name is enough.
func fileText(w *admin.Workload) string {
	if podText(w) != "" {
		return ""
	}
	return nameOfNamespace(w.Path)
}

func stateText(w *admin.Workload) string {
	if w.Why == "" {
		return w.State
	}
	return w.State + ": " + printable(w.Why)
}

// connectionWorkload names the workload of a connection, by its number where that has left.
func connectionWorkload(c *admin.Connection) string {
	if c.WorkloadID != nil && c.Workload == "" {
		return "workload " + number(uint64(*c.WorkloadID))
	}
	return printable(c.Workload)
}

func guardCells(g *admin.Guarded) []string {
	return []string{g.What(), momentText(g.Since), momentText(g.Until), g.Why}
}

func momentText(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

func noteCells(n *admin.Note) []string {
	return []string{cmp.Or(n.Resource, "bootstrap"), orDash(n.View), n.Path, n.Reason}
}

// originRows has a row for each problem of what is refused: the first with its origin, the others behind it.
func originRows(answer []byte) ([][]string, error) {
	var list []admin.Origin
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, err
	}
	var rows [][]string
	for i := range list {
		rows = append(rows, originCells(&list[i])...)
	}
	return rows, nil
}

// stateCell is the column STATE of origins.
const stateCell = 3

func originCells(o *admin.Origin) [][]string {
	kind := o.Kind
	if o.Name != "" {
		kind += " " + o.Name
	}
	row := []string{kind, orDash(o.View), orDash(o.From), "in force", orDash(o.Version), momentText(o.Taken), number(o.Refused), "-"}
	if o.Refusal == nil {
		if o.Taken == nil {
			row[stateCell] = "waiting"
		}
		return [][]string{row}
	}
	row[stateCell] = "refused at " + o.Refusal.At.UTC().Format(time.RFC3339)
	rows := [][]string{row}
	for i := range o.Refusal.Problems {
		if i > 0 {
			rows = append(rows, make([]string, len(row)))
		}
		rows[i][len(row)-1] = o.Refusal.Problems[i].String()
	}
	if more := o.Refusal.More; more > 0 {
		last := make([]string, len(row))
		last[len(row)-1] = fmt.Sprintf("and %d more", more)
		rows = append(rows, last)
	}
	return rows
}

// statRows lists the counters that have counted something.
func statRows(answer []byte) ([][]string, error) {
	var s metrics.Snapshot
	if err := json.Unmarshal(answer, &s); err != nil {
		return nil, err
	}
	var rows [][]string
	for _, stat := range s.Stats() {
		if stat.Value != 0 {
			rows = append(rows, []string{stat.Name, number(stat.Value)})
		}
	}
	return rows, nil
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

// percent shows a share.
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "%" }

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// viewsCell names the views that have a cluster.
func viewsCell(view string, views []string) string {
	if len(views) > 0 {
		return model.ViewsText(views)
	}
	return orDash(view)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
