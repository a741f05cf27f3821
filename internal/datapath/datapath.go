// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// Options choose how the programs are loaded.
type Options struct {
	// FastPath moves requests in the kernel. Off: connections are intercepted, and served by the slow path alone.
	FastPath bool
	// ReceiveBuffer is SO_RCVBUF of client sockets in bytes; 0 leaves the kernel's. The kernel caps it at
	// net.core.rmem_max.
	ReceiveBuffer uint32
	// RefuseWhenDown refuses connections to service addresses while the daemon drains or is silent, in
	// place of letting them through.
	RefuseWhenDown bool
	// SameHostTCP sends requests to endpoints on this host over TCP, as to those on others: no process waits for the lock of another's
	// socket then.
	SameHostTCP bool
	// WaitForLocks has senders wait for the lock of a socket on this host, whoever holds it. For tests: so they hold a message between its
	// program and its target.
	WaitForLocks bool
	// ReportNamespaces has connect programs tell of network namespaces that they do not know.
	ReportNamespaces bool
	// Kernel is what Probe found; needed for the fast path only.
	Kernel Kernel
}

// Datapath is the loaded kernel side.
type Datapath struct {
	// Config, Shared and Sockets are its maps.
	Config  *maps.Config
	Shared  *maps.Shared
	Sockets *maps.Sockets

	programs *programs
	// fast is nil without the fast path.
	fast    *fastPrograms
	objects *objects
	// pages are those of the arrays that grow, by name.
	pages map[string]*bpfmap.Pages
	// hashes are those that grow.
	hashes hashes
	links  []link.Link
	// explaining is held while xlb_explain runs: it has one place for its scan.
	explaining sync.Mutex
}

// objects are the maps, and programs the programs, that the daemon needs by name.
type objects struct {
	xlbMaps
}

type programs struct {
	Connect4     *ebpf.Program `ebpf:"xlb_connect4"`
	Connect6     *ebpf.Program `ebpf:"xlb_connect6"`
	Getpeername4 *ebpf.Program `ebpf:"xlb_getpeername4"`
	Getpeername6 *ebpf.Program `ebpf:"xlb_getpeername6"`
	Sockops      *ebpf.Program `ebpf:"xlb_sockops"`
	Whoami       *ebpf.Program `ebpf:"xlb_whoami"`
}

// fastPrograms are loaded only for the fast path: old kernels refuse them.
type fastPrograms struct {
	Release          *ebpf.Program `ebpf:"xlb_release"`
	Setsockopt       *ebpf.Program `ebpf:"xlb_setsockopt"`
	RequestDispatch  *ebpf.Program `ebpf:"xlb_request_dispatch"`
	ResponseDispatch *ebpf.Program `ebpf:"xlb_response_dispatch"`
	VerdictDispatch  *ebpf.Program `ebpf:"xlb_verdict_dispatch"`
	ReceiveVerdict   *ebpf.Program `ebpf:"xlb_receive_verdict"`
	Request          *ebpf.Program `ebpf:"xlb_request"`
	Response         *ebpf.Program `ebpf:"xlb_response"`
	Verdict          *ebpf.Program `ebpf:"xlb_verdict"`
	SelftestRequest  *ebpf.Program `ebpf:"xlb_selftest_request"`
	SelftestResponse *ebpf.Program `ebpf:"xlb_selftest_response"`
	Queued           *ebpf.Program `ebpf:"xlb_queued"`
	Client           *ebpf.Program `ebpf:"xlb_client"`
	Explain          *ebpf.Program `ebpf:"xlb_explain"`
	Sent             *ebpf.Program `ebpf:"xlb_sent"`
	Urgent           *ebpf.Program `ebpf:"xlb_urgent"`
}

// Load creates maps and programs. Nothing is attached yet. A program that the verifier refuses is reported as
// *ebpf.VerifierError.
func Load(o Options) (*Datapath, error) {
	// Kernels before 5.11 charge maps to RLIMIT_MEMLOCK; later ones ignore it.
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("raise limit of locked memory: %w", err)
	}
	spec, err := readSpec()
	if err != nil {
		return nil, err
	}
	if err := configure(spec, o); err != nil {
		return nil, err
	}
	d := &Datapath{objects: &objects{}, programs: &programs{}}
	if o.FastPath {
		err = requireTracepoint(sendTracepoint)
	}
	if err == nil {
		err = d.load(spec, o)
	}
	if err == nil && o.FastPath {
		err = d.selfTest()
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func configure(spec *ebpf.CollectionSpec, o Options) error {
	delete(spec.Programs, "xlb_probe")
	delete(spec.Programs, "xlb_selftest_edit")
	delete(spec.Programs, "xlb_selftest_pick")
	delete(spec.Programs, "xlb_selftest_retry")
	if !o.FastPath {
		for _, name := range fastNames {
			delete(spec.Programs, name)
		}
		spec.Maps["msg_logic"].Contents = nil
		spec.Maps["skb_logic"].Contents = nil
	}
	values := map[string]any{
		"fast_path":           boolByte(o.FastPath),
		"refuse_when_down":    boolByte(o.RefuseWhenDown),
		"report_namespaces":   boolByte(o.ReportNamespaces),
		"same_host_tcp":       boolByte(o.SameHostTCP),
		"wait_for_locks":      boolByte(o.WaitForLocks),
		"ingress_charged":     boolByte(o.Kernel.IngressCharged),
		"reads_stamped":       boolByte(o.Kernel.ReadsStamped),
		"psock_rcvbuf":        o.ReceiveBuffer,
		"socket_references":   o.Kernel.SocketReferences,
		"redirect_references": max(o.Kernel.RedirectReferences, 1),
	}
	for name, value := range values {
		v, ok := spec.Variables[name]
		if !ok {
			return fmt.Errorf("set constant %s: the kernel object has none of that name", name)
		}
		if err := v.Set(value); err != nil {
			return fmt.Errorf("set constant %s: %w", name, err)
		}
	}
	return nil
}

var fastNames = []string{
	"xlb_release", "xlb_setsockopt", "xlb_request", "xlb_request_dispatch", "xlb_response", "xlb_response_dispatch",
	"xlb_verdict", "xlb_verdict_dispatch", "xlb_receive_verdict",
	"xlb_selftest_request", "xlb_selftest_response", "xlb_queued", "xlb_client", "xlb_explain", "xlb_sent", "xlb_urgent",
}

func boolByte(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

func (d *Datapath) load(spec *ebpf.CollectionSpec, o Options) error {
	coll, err := newCollection(spec)
	if err != nil {
		return fmt.Errorf("load kernel programs: %w", err)
	}
	// What is assigned below belongs to d; the rest is held by the kernel, by those that refer to it.
	defer coll.Close()
	if err := coll.Assign(&d.objects.xlbMaps); err != nil {
		return fmt.Errorf("take maps: %w", err)
	}
	if err := coll.Assign(d.programs); err != nil {
		return fmt.Errorf("take programs: %w", err)
	}
	if o.FastPath {
		d.fast = &fastPrograms{}
		if err := coll.Assign(d.fast); err != nil {
			return fmt.Errorf("take programs: %w", err)
		}
	}
	d.wrapPages(spec)
	d.wrapHashes(spec)
	return d.wrapMaps()
}

func (d *Datapath) wrapPages(spec *ebpf.CollectionSpec) {
	m := &d.objects.xlbMaps
	d.pages = map[string]*bpfmap.Pages{}
	for name, outer := range map[string]*ebpf.Map{
		"slots": m.Slots, "request_copies": m.RequestCopies, "schedules": m.Schedules, "hash_places": m.HashPlaces, "bucket_lists": m.BucketLists,
		"routes": m.Routes, "tuples": m.Tuples, "rewrites": m.Rewrites, "cell_blocks": m.CellBlocks, "accepts": m.Accepts,
		"accepted_values": m.AcceptedValues,
	} {
		d.pages[name] = bpfmap.NewPages(name, outer, spec.Maps[name].InnerMap)
	}
}

func (d *Datapath) wrapMaps() error {
	m, pages := &d.objects.xlbMaps, d.pages
	arrays := maps.Arrays{
		Control: m.Controls, Clusters: m.Clusters, LoadSets: m.LoadSets, Groups: m.Groups, Endpoints: m.Endpoints, Addresses: m.EndpointAddresses, VHosts: m.Vhosts,
		Listeners: m.Listeners, Pools: m.Pools, Slots: pages["slots"], Schedules: pages["schedules"], HashPlaces: pages["hash_places"],
		BucketLists: pages["bucket_lists"],
	}
	// Without the fast path nobody leases.
	if d.fast != nil {
		arrays.Copies = pages["request_copies"]
	}
	shared, err := maps.MapShared(arrays)
	if err != nil {
		return err
	}
	d.Shared = shared
	d.Sockets = maps.NewSockets(m.Anchors, m.Strangers, m.Accounts, m.Conns, m.SlowConns, m.Peers, m.PoolIndices, m.IsockSlots, m.Psocks, m.Isocks)
	if d.fast != nil {
		d.Sockets.SetQueued(d.fast.Queued)
		d.Sockets.SetClient(d.fast.Client)
		d.Sockets.SetUrgent(d.fast.Urgent)
		d.Sockets.SetSequences(m.ReceiveSequences, m.Ssocks)
	}
	d.Config = &maps.Config{
		VIPs:           maps.NewVIPs(m.Vips, m.Captures, shared),
		Listeners:      shared.Listeners(),
		RouteTables:    bpfmap.NewTable[uint32, maps.RouteTable]("route_tables", m.RouteTables),
		Routes:         bpfmap.NewPagedTable[maps.Route](pages["routes"]),
		Splits:         bpfmap.NewTable[uint32, maps.Split]("splits", m.Splits),
		Rewrites:       bpfmap.NewPagedTable[maps.Rewrite](pages["rewrites"]),
		RetrySets:      bpfmap.NewTable[uint32, maps.RetrySet]("retry_sets", m.RetrySets),
		Automata:       bpfmap.NewTable[uint32, maps.Automaton]("automata", m.Automata),
		Cells:          bpfmap.NewPagedTable[maps.Cells](pages["cell_blocks"]),
		Accepts:        bpfmap.NewPagedTable[maps.Candidates](pages["accepts"]),
		AcceptedValues: bpfmap.NewPagedTable[maps.Value](pages["accepted_values"]),
		Schedules:      bpfmap.NewPagedTable[maps.Turn](pages["schedules"]),
		Hosts:          bpfmap.NewTable[maps.HostKey, uint32]("hosts", m.Hosts),
		VHosts:         shared.VHosts(),
		PathTexts:      maps.NewPathTexts(d.hashes.pathTexts),
		Paths:          bpfmap.NewTable[maps.PathKey, maps.Candidates]("paths", m.Paths),
		Tuples:         bpfmap.NewPagedTable[maps.Tuple](pages["tuples"]),
		Buckets:        d.hashes.buckets,
		BucketLists:    shared.BucketLists(),
		Fields:         bpfmap.NewTable[maps.FieldKey, maps.AskedField]("fields", m.Fields),
		Values:         d.hashes.values,
		Prefixes:       bpfmap.NewTable[maps.ValueKey, maps.Value]("value_prefixes", m.ValuePrefixes),
		Sizes: maps.Sizes{
			Listeners:      m.Listeners.MaxEntries(),
			RouteTables:    m.RouteTables.MaxEntries(),
			VHosts:         m.Vhosts.MaxEntries(),
			Routes:         pages["routes"].MaxEntries(),
			Splits:         m.Splits.MaxEntries(),
			Rewrites:       pages["rewrites"].MaxEntries(),
			RetrySets:      m.RetrySets.MaxEntries(),
			Tuples:         pages["tuples"].MaxEntries(),
			Automata:       m.Automata.MaxEntries(),
			Cells:          pages["cell_blocks"].MaxEntries(),
			Accepts:        pages["accepts"].MaxEntries(),
			AcceptedValues: pages["accepted_values"].MaxEntries(),
			Schedules:      pages["schedules"].MaxEntries(),
			BucketLists:    pages["bucket_lists"].MaxEntries(),
			Clusters:       m.Clusters.MaxEntries(),
			Groups:         m.Groups.MaxEntries(),
			Endpoints:      m.Endpoints.MaxEntries(),
			Slots:          pages["slots"].MaxEntries(),
			Anchors:        m.Anchors.MaxEntries(),
			Clients:        m.Psocks.MaxEntries(),
		},
		SynchronizeRCU: bpfmap.SynchronizeRCU,
	}
	return nil
}

// Close detaches everything and unmaps the shared arrays, which must not be used afterwards.
func (d *Datapath) Close() error {
	err := d.Detach()
	if d.Shared != nil {
		d.Shared.Close()
		d.Shared = nil
	}
	for _, p := range d.pages {
		err = errors.Join(err, p.Close())
	}
	err = errors.Join(err, d.hashes.close(), d.objects.Close())
	for _, p := range d.allPrograms() {
		err = errors.Join(err, p.Close())
	}
	return err
}

func (d *Datapath) allPrograms() []*ebpf.Program {
	p := d.programs
	list := []*ebpf.Program{p.Connect4, p.Connect6, p.Getpeername4, p.Getpeername6, p.Sockops, p.Whoami}
	if f := d.fast; f != nil {
		list = append(list, f.Release, f.Setsockopt, f.RequestDispatch, f.ResponseDispatch, f.VerdictDispatch, f.ReceiveVerdict,
			f.Request, f.Response, f.Verdict, f.SelftestRequest, f.SelftestResponse, f.Queued, f.Client, f.Explain, f.Sent, f.Urgent)
	}
	return list
}

// Verdicts returns how often each verdict was given, over all CPUs, indexed by maps.Verdict.
func (d *Datapath) Verdicts() ([]uint64, error) {
	return sumPerCPU(d.objects.Verdicts, int(maps.VerdictCount), "verdict")
}

// sumPerCPU adds up the counters of an array that each CPU has its own of.
func sumPerCPU(m *ebpf.Map, count int, what string) ([]uint64, error) {
	sums := make([]uint64, count)
	var perCPU []uint64
	for i := range sums {
		if err := m.Lookup(uint32(i), &perCPU); err != nil {
			return nil, fmt.Errorf("read %s counters: %w", what, err)
		}
		for _, n := range perCPU {
			sums[i] += n
		}
	}
	return sums, nil
}

// Guards returns how often each invariant was broken, over all CPUs, indexed by maps.Guard.
func (d *Datapath) Guards() ([]uint64, error) {
	return sumPerCPU(d.objects.Guards, int(maps.GuardCount), "guard")
}

// ThreadGroup is this process as the kernel programs see it, whatever PID namespace it lives in.
func (d *Datapath) ThreadGroup() (uint32, error) {
	tgid, err := d.programs.Whoami.Run(&ebpf.RunOptions{})
	if err != nil {
		return 0, fmt.Errorf("ask the kernel for our process number: %w", err)
	}
	return tgid, nil
}
