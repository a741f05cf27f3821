// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	standard "log"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/hangup"
	"github.com/xlb-project/xlb/internal/logging"
	"github.com/xlb-project/xlb/internal/node"
	"github.com/xlb-project/xlb/internal/pod"
	"github.com/xlb-project/xlb/internal/precedence"
	"github.com/xlb-project/xlb/internal/privilege"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/views"
)

// runFlags are the flags of "xlb run".
type runFlags struct {
	config  string
	cgroups []string
	admin   string
	// adminDefault is the admin address where nobody names one; "" is none.
	adminDefault string
	// adminHosts are names by which the admin API may be asked for.
	adminHosts []string
	fastPath   string
	// congestion control of connections to endpoints.
	congestion string
	drain      time.Duration
	// whenDown says what becomes of connections that nobody is there to serve.
	whenDown string
	// sameHost says how requests get to endpoints on this host.
	sameHost string
	// namespaces says of which network namespaces processes are balanced.
	namespaces string
	// namespaceDirs have names of network namespaces: nil where the flag is not given, "" for no directory.
	namespaceDirs []string
	// nri says which container runtime reports its pods, pods which of them are balanced.
	nri, pods string
	// views is the file of views; "": all workloads see one configuration.
	views    string
	logLevel string
	// delegate says which Envoy runs beside the daemon, and the others what it may take.
	delegate       string
	delegateMemory string
	delegateCPUs   float64
	// envoyHeaders makes the daemon a hop.
	envoyHeaders bool
	// exclude are addresses and prefixes.
	exclude []string
}

// What becomes of connections to service addresses that nobody is there to serve.
const (
	passWhenDown = "pass"
	failWhenDown = "fail"
)

// How requests get to endpoints on this host.
const (
	sameHostDirect = "direct"
	sameHostTCP    = "tcp"
	sameHostUsage  = "`how` requests get to endpoints on this host: direct, from socket to socket, or tcp, as to other hosts"
)

// Of which network namespaces processes are balanced.
const (
	namespacesAuto   = "auto"
	namespacesAll    = "all"
	namespacesOwn    = "own"
	namespacesOthers = "others"
	namespacesUsage  = "network `namespaces` whose processes are balanced: all, own, the daemon's alone, others, all but that, or auto, all where it may enter them"
)

// Which container runtime reports its pods.
const (
	nriAuto = "auto"
	nriOff  = "off"
	// nriSocket is where runtimes offer NRI by default.
	nriSocket = "/var/run/nri/nri.sock"
	nriUsage  = "`socket` of a container runtime's Node Resource Interface, which reports pods before their containers start; auto, " + nriSocket + " if a runtime is there, or off"
)

// Which pods are balanced.
const (
	podsAll      = "all"
	podsLabelled = "labelled"
	podsUsage    = "`which` pods are balanced: all, but those whose labels opt out, or labelled, those alone whose labels opt in"
)

const viewsUsage = "`file` of views: which workloads see a configuration of their own, and where that is (default: all see that of --config)"

const namespaceDirUsage = "`directory` with names of network namespaces: one that gets a name there is served before its first process connects; may be repeated, \"\" for none " +
	"(default: /run/netns and /var/run/docker/netns)"

// waitVariable is set by tests alone: senders wait for the locks of others' sockets, as they must not where anybody holds one.
const waitVariable = "XLB_TEST_WAIT_FOR_LOCKS"

const (
	fastPathAuto  = "auto"
	fastPathUsage = "auto, on, or off to serve every request in this process"
)

// noAdmin is the admin address of a daemon that has no admin API.
const noAdmin = "none"

const adminHostUsage = "`name` by which the admin API may be asked for, beside addresses and localhost; may be repeated"

const envoyHeadersUsage = "add the headers that Envoy adds unasked, as x-request-id; serves every request in this process"

func runCommand(e *env) *cobra.Command {
	f := runFlags{adminDefault: admin.DefaultAddress}
	c := &cobra.Command{
		Use:   "run",
		Short: "Balance the HTTP requests of this machine's processes",
		Long: `Runs the daemon in the foreground. Processes of the given cgroups that connect to a
listener's address have each of their requests routed and balanced in the kernel; what the
kernel does not handle is served by a proxy in this process, by the same routes.

SIGHUP, or a change of the file, reloads the configuration; one that cannot be used changes
nothing. SIGTERM ends interception, lets requests in flight finish, and leaves nothing
attached.

While it starts, drains, or has given no sign of life for three seconds, connections go where
their address leads, as without it. In 127.0.0.0/8, and at the machine's own addresses, any
process may listen there, on ports from 1024 on. --when-down=fail refuses them instead. Once
the process has ended, killed or not, nothing is attached, and they go where they lead.

With --fast-path=auto the daemon serves every request itself where the kernel cannot run the
fast path, and takes clients' connections, endpoints or the whole machine off it that break
its invariants too often; /ready, "xlb get guards" and the log say what and why. With on, a
kernel that cannot run it is an error, and broken invariants are told of only.

Clients and servers on one host have their messages moved from socket to socket, for which one may
have to wait for the other's socket. Where they may attack each other --same-host=tcp keeps them
apart, at about half of the speed.

Processes of all network namespaces are balanced, those of pods and containers too: the daemon
opens sockets in each namespace, for which it needs CAP_SYS_ADMIN and CAP_SYS_PTRACE. Without
these, or with --namespaces=own, it serves its own alone. "xlb release" takes one out.
At its start it drops each capability that it does not use; the log says what it keeps.

A container runtime with NRI (containerd from 2.0 on) reports each pod before its containers
start: its first connection is balanced, and its name is known. A pod is left alone with the label
` + pod.Label + `: "false", or ` + pod.IstioLabel + `: none. With --pods=labelled those alone are
balanced that have the former with "true", or the latter with xlb.

All workloads see the configuration of --config, unless --views names a file of views. Each view
has an Envoy bootstrap, and says of which pods, cgroups or network namespaces the processes see it.
The same address may mean other routes in another view, and no process sees another view's listeners.
The file of views, and the bootstraps that it names, are read again when they have changed.

With --delegate an Envoy runs beside the daemon, with the same configuration, in which listeners are
at Unix sockets that it alone listens at: as a user of its own, without privileges, in a cgroup with
--delegate-memory and --delegate-cpus. It ends with the daemon. No connection is led to it yet.

The admin API, which "xlb get" asks, listens where --admin says, else where admin.address of the
configuration does, else at ` + admin.DefaultAddress + `, unless that is taken, or a listener's. With unix:PATH
it listens at a Unix socket with the mode 0600, in place of TCP: root and the daemon's user may ask, and no
other user changes anything, whatever admin.address.pipe.mode is. --admin none goes without.`,
		Example: `  xlb run --config envoy.yaml
  xlb run --config envoy.yaml --cgroup /sys/fs/cgroup/shop --admin 127.0.0.1:9902
  xlb run --config envoy.yaml --admin unix:/run/xlb/admin.sock
  xlb run --config envoy.yaml --views views.yaml
  xlb run --config envoy.yaml --fast-path=off`,
		Args: noArguments,
	}
	flags := c.Flags()
	flags.StringVarP(&f.config, "config", "c", "", "Envoy v3 bootstrap `file`, YAML or JSON (required)")
	flags.StringArrayVar(&f.cgroups, "cgroup", nil, "cgroup v2 `directory` whose processes are balanced; may be repeated (default: all processes)")
	flags.StringVar(&f.admin, "admin", "", "`address` of the admin API, host:port, unix:PATH, or none (default: admin.address of the configuration, else "+admin.DefaultAddress+")")
	flags.StringSliceVar(&f.adminHosts, "admin-host", nil, adminHostUsage)
	flags.StringVar(&f.fastPath, "fast-path", fastPathAuto, fastPathUsage)
	flags.BoolVar(&f.envoyHeaders, "envoy-headers", false, envoyHeadersUsage)
	flags.StringSliceVar(&f.exclude, "exclude-destinations", []string{"127.0.0.1/32", "::1/128"},
		"`addresses`, or prefixes, that listeners at 0.0.0.0 or :: leave alone")
	flags.StringVar(&f.congestion, "congestion-control", "", "TCP's congestion control, by `name`, of connections to endpoints (default: the machine's)")
	flags.DurationVar(&f.drain, "drain-time", 30*time.Second, "how long requests in flight may take at the end")
	flags.StringVar(&f.whenDown, "when-down", passWhenDown, "`what` becomes of connections to service addresses while the daemon starts, drains or hangs: pass or fail")
	flags.StringVar(&f.sameHost, "same-host", sameHostDirect, sameHostUsage)
	flags.StringVar(&f.namespaces, "namespaces", namespacesAuto, namespacesUsage)
	flags.StringArrayVar(&f.namespaceDirs, "namespace-directory", nil, namespaceDirUsage)
	flags.StringVar(&f.nri, "nri", nriAuto, nriUsage)
	flags.StringVar(&f.pods, "pods", podsAll, podsUsage)
	flags.StringVar(&f.views, "views", "", viewsUsage)
	f.delegateFlags(c)
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error; \"xlb log-level\" changes it")
	completes(c, "fast-path", fastPathAuto, "on", "off")
	completes(c, "when-down", passWhenDown, failWhenDown)
	completes(c, "same-host", sameHostDirect, sameHostTCP)
	completes(c, "namespaces", namespacesAuto, namespacesAll, namespacesOwn, namespacesOthers)
	completes(c, "pods", podsAll, podsLabelled)
	completes(c, "log-level", logLevels...)
	c.RunE = func(c *cobra.Command, _ []string) error {
		o, err := f.options(e)
		if err != nil {
			return refused(err)
		}
		return f.runDaemon(c.Context(), o)
	}
	return reloads(c)
}

// runDaemon runs it until ctx ends.
func (f *runFlags) runDaemon(ctx context.Context, o node.Options) error {
	reload := hangup.Take()
	defer hangup.End()
	f.dropCapabilities(&o)
	// Before it can be too late to say so.
	if warning := check.MemoryWarning(); warning != "" {
		o.Logger.Warn("little memory is allowed", "limit", warning)
	}
	err := node.Run(ctx, o, reload)
	var usage *node.UsageError
	if !errors.As(err, &usage) {
		return err
	}
	logDetail(o.Logger, err)
	// With auto it was tried without.
	return refused(explained(err, o.FastPath && !o.Auto, check.Privileged()))
}

// dropCapabilities leaves this process what the daemon uses.
func (f *runFlags) dropCapabilities(o *node.Options) {
	have, err := privilege.Own()
	used := privilege.Used(have, privilege.Work{Others: o.OtherNamespaces, Delegate: o.Delegate != nil})
	if err == nil {
		err = privilege.Drop(used)
	}
	f.sayCapabilities(o, used, err)
}

// sayCapabilities has the daemon log and show which capabilities it keeps, or why it may keep others, too.
func (f *runFlags) sayCapabilities(o *node.Options, used privilege.Set, err error) {
	log := o.Logger
	if err != nil {
		const what = "the daemon may keep capabilities that it does not use"
		o.CapabilitiesError = fmt.Errorf("%s: %w", what, err)
		o.OnStart = func() { log.Warn(what, "err", err) }
		return
	}
	line := []any{"kept", used.String()}
	work, nice := privilege.Work{Others: f.namespaces != namespacesOwn, Delegate: o.Delegate != nil}, precedence.Allowed()
	if absent := privilege.Absent(used, work, nice); len(absent) > 0 {
		line = append(line, "without", strings.Join(absent, "; "))
	}
	o.Capabilities = privilege.List(used, work, nice)
	o.OnStart = func() { log.Info("the daemon keeps the capabilities that it uses", line...) }
}

// logDetail logs what an error says only when it is asked, as the verifier's with its log of many lines.
func logDetail(log *slog.Logger, err error) {
	var detailed interface {
		error
		fmt.Formatter
	}
	if errors.As(err, &detailed) {
		log.Debug("refused by the kernel", "err", fmt.Sprintf("%+v", detailed))
	}
}

func (f *runFlags) options(e *env) (node.Options, error) {
	o := node.Options{Build: build(), ConfigPath: f.config, AdminHosts: f.adminHosts, DrainTime: f.drain, CongestionControl: f.congestion, EnvoyHeaders: f.envoyHeaders}
	if f.config == "" {
		return o, errors.New("--config: required: give an Envoy v3 bootstrap, as in: xlb run --config envoy.yaml")
	}
	if o.Admin, o.AdminDefault = f.admin, f.adminDefault; f.admin == noAdmin {
		o.Admin, o.NoAdmin = "", true
	}
	log, level, err := newLog(e, f.logLevel)
	if err != nil {
		return o, err
	}
	o.Logger, o.LogLevel = log, level
	// net/http reports what endpoints do to the standard logger: a line per event, with bytes of theirs.
	standard.SetFlags(0)
	standard.SetOutput(slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug).Writer())
	switch f.fastPath {
	case fastPathAuto:
		o.FastPath, o.Auto = true, true
	case "on":
		o.FastPath = true
	case "off":
	default:
		return o, fmt.Errorf("--fast-path %q: use auto, on or off", f.fastPath)
	}
	switch f.whenDown {
	case failWhenDown:
		o.RefuseWhenDown = true
	case passWhenDown:
	default:
		return o, fmt.Errorf("--when-down %q: use pass, or fail to refuse connections that nobody serves", f.whenDown)
	}
	if o.WaitForLocks = os.Getenv(waitVariable) != ""; o.WaitForLocks {
		o.Logger.Warn("senders wait for locks of others: this is for tests", "variable", waitVariable)
	}
	switch f.sameHost {
	case sameHostTCP:
		o.SameHostTCP = true
	case sameHostDirect:
	default:
		return o, fmt.Errorf("--same-host %q: use direct, or tcp where clients and servers do not trust each other", f.sameHost)
	}
	if err := f.chooseNamespaces(&o); err != nil {
		return o, err
	}
	if err := f.choosePods(&o); err != nil {
		return o, err
	}
	if err := f.chooseViews(&o); err != nil {
		return o, err
	}
	if err := f.chooseDelegate(&o); err != nil {
		return o, err
	}
	if err := upstream.CheckCongestionControl(f.congestion); err != nil {
		return o, fmt.Errorf("--congestion-control: %w", err)
	}
	if f.drain < 0 {
		return o, fmt.Errorf("--drain-time %s: a duration cannot be negative", f.drain)
	}
	for _, text := range f.exclude {
		prefix, err := prefixOf(text)
		if err != nil {
			return o, err
		}
		o.Exclude = append(o.Exclude, prefix)
	}
	cgroups, err := f.cgroupPaths()
	o.Cgroups = cgroups
	return o, err
}

// chooseNamespaces says whose processes are balanced.
func (f *runFlags) chooseNamespaces(o *node.Options) error {
	may, err := check.MayEnterNamespaces()
	if err != nil {
		return fmt.Errorf("--namespaces: %w", err)
	}
	if o.NamespaceDirectories, err = f.namespaceDirectories(); err != nil {
		return err
	}
	switch f.namespaces {
	case namespacesAuto:
		o.OtherNamespaces = may
		return nil
	case namespacesOwn:
		if f.namespaceDirs != nil {
			return errors.New("--namespace-directory: names are those of other network namespaces than the daemon's, which --namespaces=own does not serve; leave one of the two out")
		}
		return nil
	case namespacesAll, namespacesOthers:
		o.OtherNamespaces, o.NoOwnNamespace = true, f.namespaces == namespacesOthers
	default:
		return fmt.Errorf("--namespaces %q: use auto, all, own or others", f.namespaces)
	}
	if !may {
		return fmt.Errorf("--namespaces %s: CAP_SYS_ADMIN and CAP_SYS_PTRACE are needed to open sockets in other network namespaces; grant them, or use own", f.namespaces)
	}
	return nil
}

// choosePods says which runtime reports pods, and which of them are balanced. It comes behind chooseNamespaces.
func (f *runFlags) choosePods(o *node.Options) error {
	const others = "pods have network namespaces of their own, and the daemon serves its own alone (--namespaces, or it lacks CAP_SYS_ADMIN and CAP_SYS_PTRACE)"
	switch {
	case f.nri == nriAuto:
		if o.OtherNamespaces {
			o.NRI, o.OptionalNRI = nriSocket, true
		}
	case f.nri == nriOff:
	case !filepath.IsAbs(f.nri):
		return fmt.Errorf("--nri %q: use auto, off, or the absolute path of a socket, as %s", f.nri, nriSocket)
	case !o.OtherNamespaces:
		return fmt.Errorf("--nri %s: %s; leave it out", f.nri, others)
	default:
		o.NRI = f.nri
	}
	switch f.pods {
	case podsAll:
		return nil
	case podsLabelled:
	default:
		return fmt.Errorf("--pods %q: use all or labelled", f.pods)
	}
	if !o.OtherNamespaces {
		return fmt.Errorf("--pods labelled: %s; leave it out", others)
	}
	if f.nri == nriOff {
		return errors.New("--pods labelled: labels are known from a container runtime alone; leave out --nri=off")
	}
	// Without a runtime no pod is balanced: the log says so, also where none was named.
	o.LabelledPods, o.OptionalNRI = true, false
	return nil
}

// chooseViews reads the file of views. It comes behind choosePods.
func (f *runFlags) chooseViews(o *node.Options) (err error) {
	if f.views == "" {
		return nil
	}
	if o.Views, err = views.Read(f.views); err != nil {
		return fmt.Errorf("--views: %w", err)
	}
	if err := o.Views.Check(o.Served()); err != nil {
		return fmt.Errorf("--views %s: %w", f.views, err)
	}
	if o.Views.SelectsPods() != "" {
		// Without a runtime the view selects no pod: the log says so.
		o.OptionalNRI = false
	}
	return nil
}

// namespaceDirectories are where names of network namespaces are looked for. They need not exist yet: container runtimes make them.
func (f *runFlags) namespaceDirectories() ([]string, error) {
	if f.namespaceDirs == nil {
		return namespaceDirectories, nil
	}
	var list []string
	for _, dir := range f.namespaceDirs {
		info, err := os.Stat(dir)
		switch {
		case dir == "":
		case !filepath.IsAbs(dir):
			return nil, fmt.Errorf("--namespace-directory %s: want an absolute path, as /run/netns", dir)
		case err == nil && !info.IsDir(), errors.Is(err, unix.ENOTDIR):
			return nil, fmt.Errorf("--namespace-directory %s: not a directory; give the one in which network namespaces have names, as /run/netns", dir)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("--namespace-directory: %w; give the one in which network namespaces have names, as /run/netns", err)
		default:
			list = append(list, dir)
		}
	}
	return list, nil
}

// newLog is a log on standard error, and its level, which may be changed.
func newLog(e *env, level string) (*slog.Logger, *slog.LevelVar, error) {
	l, err := logging.Level(strings.ToLower(level))
	if err != nil {
		return nil, nil, fmt.Errorf("--log-level %q: not a level; use debug, info, warn or error", level)
	}
	changing := new(slog.LevelVar)
	changing.Set(l)
	return slog.New(logging.NewHandler(e.stderr, changing)), changing, nil
}

// prefixOf parses an address or a prefix.
func prefixOf(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return netip.PrefixFrom(address.Unmap(), address.Unmap().BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("--exclude-destinations %q: no address and no prefix; write as 10.0.0.0/8", text)
	}
	return prefix.Masked(), nil
}

// cgroupPaths are the directories to attach to: the root of the hierarchy unless some are given.
func (f *runFlags) cgroupPaths() ([]string, error) {
	if len(f.cgroups) == 0 {
		root, err := check.CgroupMount()
		return []string{root}, err
	}
	var problems []error
	for _, path := range f.cgroups {
		problems = append(problems, checkCgroup(path))
	}
	return f.cgroups, errors.Join(problems...)
}

func checkCgroup(path string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return fmt.Errorf("--cgroup %s: %w; give a directory of the cgroup v2 hierarchy", path, err)
	}
	if st.Type == unix.CGROUP2_SUPER_MAGIC {
		return nil
	}
	root, err := check.CgroupMount()
	if err != nil {
		return fmt.Errorf("--cgroup %s: not a cgroup v2 directory, and none is mounted: %w", path, err)
	}
	return fmt.Errorf("--cgroup %s: not a cgroup v2 directory; the hierarchy is mounted at %s", path, root)
}
