// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/match"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// reading is what a file of the bootstrap says, or why it cannot be used.
type reading struct {
	bootstrap *config.Bootstrap
	static    *model.Config
	err       error
}

// read reads the file again, if it is due, or asked for. It is nil for one that is neither, and for one that changes while it is read: the watch tells of
// it again.
func (n *Node) read(w *files.Watch, asked bool) *reading {
	now := time.Now()
	stamp, due := w.Due(n.o.ConfigPath, now)
	if !due && !asked {
		return nil
	}
	text, err := textOf(n.o)
	if !w.Take(n.o.ConfigPath, stamp, err) {
		return nil
	}
	w.Again(err, now)
	if err != nil {
		return &reading{err: err}
	}
	r := &reading{}
	if r.bootstrap, r.static, r.err = parseBootstrap(n.o, text); r.err == nil && n.dynamic != nil {
		n.dynamic.readAhead(r.bootstrap.Files())
	}
	return r
}

// reload puts in force what has been read. What cannot be used changes nothing.
func (n *Node) reload(r *reading) {
	err := r.err
	if err == nil {
		n.updates.Lock()
		if err = n.replace(r.bootstrap, r.static); err == nil {
			n.tookBootstrap(r.bootstrap)
		}
		n.updates.Unlock()
	}
	if errors.Is(err, errEnding) {
		return
	}
	if err != nil {
		n.log.Error("configuration refused; the one before stays in force", "file", n.o.ConfigPath, "err", err)
		n.intake.refuse(n.bootstrapKey(), refusalOf(err), false)
	}
	n.giveBack()
}

// loadBootstrap reads the file, and returns its static part, too.
func loadBootstrap(o Options) (*config.Bootstrap, *model.Config, error) {
	text, err := textOf(o)
	if err != nil {
		return nil, nil, err
	}
	return parseBootstrap(o, text)
}

// readFirst is loadBootstrap for the start.
func readFirst(o Options) reading {
	bootstrap, static, err := loadBootstrap(o)
	return reading{bootstrap, static, err}
}

func textOf(o Options) ([]byte, error) {
	if len(o.ConfigText) > 0 {
		return o.ConfigText, nil
	}
	text, err := config.ReadText(o.ConfigPath)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w; name a readable Envoy v3 bootstrap", err)
	}
	return text, nil
}

func parseBootstrap(o Options, text []byte) (*config.Bootstrap, *model.Config, error) {
	b, err := config.ParseBootstrap(o.ConfigPath, text, config.EnvoyHeaders(o.EnvoyHeaders), config.AsNode(o.Node))
	if err != nil {
		return nil, nil, err
	}
	if cfg := b.Whole(); cfg != nil {
		return b, cfg, nil
	}
	cfg, err := b.Assemble(config.Resources{})
	return b, cfg, err
}

// Validate says whether a daemon could begin with this bootstrap, as far as that can be said of a text.
func Validate(o Options) error {
	_, _, err := loadBootstrap(o)
	return err
}

// largeFile is the size in bytes of a configuration that leaves much behind when it has been read.
const largeFile = 1 << 20

// giveBack returns the memory to the system that the reading of a large file has left, several times what is kept of it, and what a small one has made needless:
// the runtime would hold it until as much is used again.
func (n *Node) giveBack() {
	size := files.StampOf(n.o.ConfigPath).Size
	if max(size, n.sizeBefore) >= largeFile {
		n.freeMemory()
	}
	n.sizeBefore = size
}

// manyClusters is from how many on the page of metrics leaves much behind: some 24 kB for each.
const manyClusters = 256

// returnPace is how often memory is given back: each time all of it is looked through, which takes as long as a page.
const returnPace = time.Minute

// returning gives back to the system what large pages of metrics have taken. Between two of them the runtime would keep it, as one comes every few seconds
// and all else takes little. Of pages that come faster than returnPace some do not: who asks often would have the daemon do nothing else.
func (n *Node) returning(metrics http.Handler) http.Handler {
	give := paced(returnPace, debug.FreeOSMemory)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		metrics.ServeHTTP(w, r)
		if len(n.current.Load().clusters) >= manyClusters {
			give()
		}
	})
}

// paced does something when it is asked to, once in that time. It is safe for concurrent use.
func paced(pace time.Duration, do func()) func() {
	var mu sync.Mutex
	var last time.Time
	return func() {
		mu.Lock()
		now := time.Now()
		due := last.IsZero() || now.Sub(last) >= pace
		if due {
			last = now
		}
		mu.Unlock()
		if due {
			do()
		}
	}
}

// tookBootstrap notes what is to be shown of a bootstrap in force.
func (n *Node) tookBootstrap(b *config.Bootstrap) {
	n.showBootstrap(b)
	n.noteBootstrap(b)
	n.intake.take(n.bootstrapKey(), digestText(b))
	if n.dynamic == nil {
		n.intake.take(wholeKey, "")
	}
}

func (n *Node) bootstrapKey() originKey { return originKey{kindBootstrap, n.o.ConfigPath} }

// replace puts another file in force. Needs n.updates.
func (n *Node) replace(b *config.Bootstrap, static *model.Config) error {
	switch {
	case n.dynamic != nil:
		return n.dynamic.replace(b)
	case b.Dynamic != nil:
		return errOtherSources
	}
	return n.apply(static)
}

// apply puts a configuration in force: kernel, slow path, pools. Needs n.updates.
func (n *Node) apply(wanted *model.Config) error {
	before, wantedBefore := n.source, n.wanted
	source := n.hold(wanted)
	n.source, n.wanted = source, wanted
	if err := n.install(n.resolver.follow(source)); err != nil {
		n.source, n.wanted = before, wantedBefore
		n.secrets.follow(n.resolver.follow(before))
		return err
	}
	return nil
}

// install puts a configuration in force whose names are resolved. Needs n.updates.
func (n *Node) install(cfg *model.Config) error {
	n.secrets.follow(cfg)
	cfg = n.inners.mark(n.doors.place(cfg))
	made, ok := unlessEnded(n.ending, func() prepared { return n.prepare(cfg) })
	if !ok {
		return errEnding
	}
	image, matchers, notes := made.image, made.matchers, made.notes
	n.say(notes)
	n.sayPassed(cfg)
	before, places := n.current.Load(), n.directory.Load()
	changed := model.ChangeOf(before.config.Clusters, cfg.Clusters)
	if len(changed.Lost()) > 0 {
		// What their endpoints have counted is not found any more afterwards.
		n.metrics.Observe()
	}
	changes, err := n.switchTo(cfg, image, matchers, notes)
	if err != nil {
		return err
	}
	n.guards.Apply(changes.Endpoints)
	if len(changed.Lost()) > 0 || n.unswept {
		n.unswept = !n.proxy.Sweep()
	}
	n.connect(cfg, before, places, &changes)
	n.yieldAdmin(cfg)
	// What cannot be bound is logged, and tried again.
	_ = n.doors.follow(cfg)
	if now := n.directory.Load(); places.limits == nil || !maps.Equal(places.limits, now.limits) {
		n.anchors.LimitsChanged(now.limits)
	}
	n.health.Apply(cfg.Clusters, n.directory.Load().endpointsOf)
	return nil
}

// prepared is what is made of a configuration before anything is changed.
type prepared struct {
	image    *compile.Image
	matchers map[*model.RouteTable]*match.Table
	notes    []note.Note
}

// prepare takes seconds where there are thousands of regular expressions. It touches nothing but the compiler and the builder. Needs n.updates, or that the
// daemon ends.
func (n *Node) prepare(cfg *model.Config) prepared {
	image, notes := n.compiler.Compile(cfg)
	return prepared{image, n.matchers.Build(cfg), notes}
}

// say logs the notes that the configuration before did not have: endpoints may change often.
func (n *Node) say(notes []note.Note) {
	said := map[note.Note]bool{}
	for _, note := range n.current.Load().notes {
		said[note] = true
	}
	for _, note := range notes {
		if !said[note] {
			n.log.Warn("served by the slow path", "where", note.Where, "reason", note.Reason)
		}
	}
}

// sayPassed logs which listeners are left alone, once.
func (n *Node) sayPassed(cfg *model.Config) {
	for _, p := range cfg.Passed {
		if before := n.current.Load().config; !slices.Contains(before.Passed, p) {
			n.log.Info("listener left alone", "listener", p.Listener, "address", p.Address, "reason", p.Why)
		}
	}
}

// switchTo changes the kernel, and then the slow path, whose requests never wait for it: until the end they find what they have found before. It
// says what has changed since the last time that it did so.
func (n *Node) switchTo(cfg *model.Config, image *compile.Image, matchers map[*model.RouteTable]*match.Table, notes []note.Note) (reconcile.Changes, error) {
	n.inForce.Lock()
	defer n.inForce.Unlock()
	if err := n.reconcil.Switch(image); err != nil {
		return reconcile.Changes{}, fmt.Errorf("write configuration to the kernel: %w", err)
	}
	changes := n.reconcil.Changed()
	// Endpoints first: who finds the new routes finds their clusters.
	n.directory.Store(n.newDirectory(n.directory.Load(), cfg, &changes))
	n.publish(cfg, matchers, notes)
	return changes, nil
}

func (n *Node) publish(cfg *model.Config, matchers map[*model.RouteTable]*match.Table, notes []note.Note) {
	before := n.current.Load()
	if before == nil {
		before = &loaded{config: &model.Config{}}
	}
	l := &loaded{
		config: cfg, matchers: matchers, notes: notes, at: time.Now(), tables: before.tables, tcp: before.tcp, inspections: before.inspections, shortest: before.shortest,
		departed: before.departed, inner: before.inner, numbers: before.numbers,
		clusters: clustersByName(before, cfg),
	}
	l.version = sync.OnceValue(func() string { return versionOf(cfg) })
	if before.tables == nil || !slices.Equal(before.config.Listeners, cfg.Listeners) {
		l.inner, l.numbers = model.InnerOf(cfg.Listeners), n.reconcil.ListenerNumbers()
		l.addListeners(cfg, l.numbers)
		l.keepDeparted(before)
	}
	n.current.Store(l)
}

// departure is how long the routes of a listener that was removed serve the connections that it leaves behind (Envoy: --drain-time-s, by default).
const departure = 10 * time.Minute

// keepDeparted has the routes of removed listeners serve on, of those that have another address now, and of those without HTTP from now on.
func (l *loaded) keepDeparted(before *loaded) {
	l.departed = map[string]time.Time{}
	for served, table := range before.tables {
		if _, ok := l.tables[served]; ok || table == nil {
			continue
		}
		since, known := before.departed[served]
		if !known {
			since = l.at
		}
		if l.at.Sub(since) < departure {
			l.departed[served], l.tables[served] = since, table
		}
	}
}

// servedAt is what the slow path calls a listener by: its number, which stays with its address. By its name the connections to the address that it had before
// would be those of the new one.
func servedAt(number uint32) string { return strconv.FormatUint(uint64(number), 10) }

// leaves reports whether connections of a listener close behind the answer under way, since the listener was removed.
func (n *Node) leaves(served string) bool {
	_, ok := n.current.Load().departed[served]
	return ok
}

func (l *loaded) addListeners(cfg *model.Config, numbers map[string]uint32) {
	l.tables, l.tcp, l.inspections = map[string]*model.RouteTable{}, map[string]*model.TCPProxy{}, map[string]*model.Inspection{}
	l.shortest = shortestOfRequests(cfg.Listeners)
	for _, lis := range cfg.Listeners {
		number, ok := numbers[lis.Name]
		if !ok {
			continue // its connections are left alone
		}
		served := servedAt(number)
		switch {
		case lis.Inspection != nil:
			l.tables[served], l.inspections[served] = lis.Routes, lis.Inspection
		case lis.TCP != nil:
			l.tcp[served] = lis.TCP
		default:
			l.tables[served] = lis.Routes
		}
	}
}

// clustersByName finds the clusters of a configuration. Readers may still use what was before.
func clustersByName(before *loaded, cfg *model.Config) map[string]*model.Cluster {
	changed := model.ChangeOf(before.config.Clusters, cfg.Clusters)
	if len(changed.Removed)+len(changed.Added) == 0 && before.clusters != nil {
		return before.clusters
	}
	clusters := maps.Clone(before.clusters)
	if clusters == nil {
		clusters = make(map[string]*model.Cluster, len(changed.Added))
	}
	for _, c := range changed.Removed {
		delete(clusters, c.Name)
	}
	for _, c := range changed.Added {
		clusters[c.Name] = c
	}
	return clusters
}

// versionOf tells configurations apart by their content. For 10,000 routes that takes a good part of a reload: only who asks for it waits.
func versionOf(cfg *model.Config) string {
	b, err := json.Marshal(cfg)
	if err != nil {
		// Plain data always marshals.
		return "unknown"
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// connect makes the pools follow the endpoints in force, after changes of what was before.
func (n *Node) connect(cfg *model.Config, before *loaded, places *directory, changes *reconcile.Changes) {
	now := n.current.Load()
	if plain := n.plainOf(cfg, before); n.plain == nil || !maps.Equal(plain, n.plain) {
		n.plain = plain
		// Whoever was not connected to may have to be now.
		n.pool.SetEndpoints(n.toConnect(n.reconcil.Endpoints(), now))
	} else {
		var removed []uint32
		for i := range changes.Endpoints {
			if e := &changes.Endpoints[i]; !n.connects(e) {
				removed = append(removed, e.Index)
			}
		}
		n.pool.Change(n.toConnect(changes.Endpoints, now), append(removed, changes.Released...))
	}
	if limit := shortestLimit(cfg, now.shortest); limit != n.shortest {
		n.shortest = limit
		n.pool.SetShortest(limit)
	}
	n.keepConnections(places, changes)
	n.releaseGone(changes.Endpoints)
}

// plainOf are the clusters without i-socks, of another configuration.
func (n *Node) plainOf(cfg *model.Config, before *loaded) map[string]bool {
	if n.plain != nil && slices.Equal(before.config.Listeners, cfg.Listeners) {
		return n.plain
	}
	return cfg.PlainClusters()
}

// connects reports whether an endpoint is to have i-socks.
func (n *Node) connects(e *reconcile.EndpointEntry) bool {
	return !e.Gone && n.o.FastPath && !n.plain[e.Cluster] && e.TLS == nil && !e.Inner
}

func (n *Node) toConnect(entries []reconcile.EndpointEntry, now *loaded) []pool.Endpoint {
	list := make([]pool.Endpoint, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		c := now.clusters[e.Cluster]
		if c == nil || !n.connects(e) {
			continue
		}
		list = append(list, pool.Endpoint{
			Index: e.Index, Address: e.Address, ConnectTimeout: c.ConnectTimeout,
			Cluster: e.Cluster, MaxConnections: max(c.BreakersOf(model.PriorityDefault).MaxConnections, 1),
			Limits: pool.Limits(c.Connections), Draining: e.Health == model.Draining,
		})
	}
	return list
}

// keepConnections tells the slow path to which addresses it may keep connections. Several clusters may have endpoints at one.
func (n *Node) keepConnections(places *directory, changes *reconcile.Changes) {
	touched := map[netip.AddrPort]int{}
	count := func(e *reconcile.EndpointEntry, by int) {
		if e == nil || e.Gone || e.Health == model.Draining {
			return
		}
		if _, known := touched[e.Address]; !known {
			touched[e.Address] = n.kept[e.Address]
		}
		n.kept[e.Address] += by
	}
	for i := range changes.Endpoints {
		count(&changes.Endpoints[i], +1)
		count(places.endpoints.At(changes.Endpoints[i].Index), -1)
	}
	for _, index := range changes.Released {
		count(places.endpoints.At(index), -1)
	}
	var added, dropped []netip.AddrPort
	for address, before := range touched {
		switch now := n.kept[address]; {
		case now == 0:
			delete(n.kept, address)
			if before > 0 {
				dropped = append(dropped, address)
			}
		case before == 0:
			added = append(added, address)
		}
	}
	n.proxy.KeepConnections(added, dropped)
	n.dropTurned(places, changes)
}

// releaseGone gives up removed endpoints that have no pool: of all when there is no fast path, and those of listeners without HTTP.
func (n *Node) releaseGone(entries []reconcile.EndpointEntry) {
	for _, e := range entries {
		if e.Gone && !n.pool.Knows(e.Index) {
			n.released(e.Index)
		}
	}
}

// released gives up a removed endpoint whose i-socks are closed, now or when its last slow request has ended.
func (n *Node) released(index uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting[index] = struct{}{}
}

// releaseWaiting gives up the removed endpoints whose last request has ended. One that the pool knows has come back since: when it is removed again, the pool
// tells anew.
func (n *Node) releaseWaiting() {
	for _, index := range n.takeIdle() {
		// The pool tells with its lock held: it is not asked with ours.
		if !n.pool.Knows(index) {
			n.reconcil.ReleaseEndpoint(index)
		}
	}
}

// takeIdle takes those without requests out of the endpoints that wait.
func (n *Node) takeIdle() (idle []uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for index := range n.waiting {
		if atomic.LoadUint32(&n.datapath.Shared.Endpoints[index].Outstanding) == 0 {
			idle = append(idle, index)
			delete(n.waiting, index)
		}
	}
	return idle
}
