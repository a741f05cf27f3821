// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/hangup"
	"github.com/xlb-project/xlb/internal/logging"
	"github.com/xlb-project/xlb/internal/node"
)

// envoyVerb takes the arguments of Envoy. A binary with this name, as a link to xlb has it, needs no verb.
const envoyVerb = "envoy"

// envoyArguments puts the verb in front where the program is called by Envoy's name.
func envoyArguments(program string, args []string) []string {
	if filepath.Base(program) != envoyVerb {
		return args
	}
	return append([]string{envoyVerb}, args...)
}

// envoyFlags are Envoy's arguments that mean something here.
type envoyFlags struct {
	path, text  string
	mode        string
	adminPath   string
	logPath     string
	logLevel    string
	node        config.NodeName
	drain       uint32
	epoch       uint32
	showVersion bool
	// What is XLB's own.
	cgroups []string
	admin   string
	// adminHosts has commas between the names.
	adminHosts string
	fastPath   string
	headers    string
	whenDown   string
	sameHost   string
	namespaces string
	// namespaceDirs are as in runFlags.
	namespaceDirs []string
	// nri and pods likewise.
	nri, pods string
	views     string
}

// passedOver are Envoy's arguments that change nothing here, and why. Those of takesValue have one.
var passedOver = []struct {
	name, shorthand string
	takesValue      bool
	why             string
}{
	{"concurrency", "", true, "requests are served on the processors of who sends them"},
	{"cpuset-threads", "", false, "requests are served on the processors of who sends them"},
	{"base-id", "", true, "there is no hot restart: XLB is replaced by starting it anew"},
	{"use-dynamic-base-id", "", false, "there is no hot restart: XLB is replaced by starting it anew"},
	{"disable-hot-restart", "", false, "there is no hot restart: XLB is replaced by starting it anew"},
	{"parent-shutdown-time-s", "", true, "there is no hot restart: XLB is replaced by starting it anew"},
	{"socket-path", "", true, "there is no hot restart: XLB is replaced by starting it anew"},
	{"socket-mode", "", true, "there is no hot restart: XLB is replaced by starting it anew"},
	{"drain-strategy", "", true, "every answer while XLB ends tells its client to close"},
	{"component-log-level", "", true, "the log has one level"},
	{"enable-fine-grain-logging", "", false, "the log has one level"},
	{"log-format", "", true, "the log has the form of XLB's"},
	{"log-format-escaped", "", false, "the log has the form of XLB's"},
	{"file-flush-interval-msec", "", true, "no access log is written"},
	{"file-flush-min-size-kb", "", true, "no access log is written"},
	{"ignore-unknown-dynamic-fields", "", false, "unknown fields of what a control plane sends are ignored"},
	{"local-address-ip-version", "", true, "x-forwarded-for has the first IPv4 address of this host"},
}

// Environment variables stand for XLB's own arguments where whoever starts Envoy passes Envoy's only.
const (
	cgroupVariable   = "XLB_CGROUP"
	adminVariable    = "XLB_ADMIN"
	hostsVariable    = "XLB_ADMIN_HOSTS"
	fastPathVariable = "XLB_FAST_PATH"
	headersVariable  = "XLB_ENVOY_HEADERS"
	whenDownVariable = "XLB_WHEN_DOWN"
	sameHostVariable = "XLB_SAME_HOST"
	namesVariable    = "XLB_NAMESPACES"
	nameDirsVariable = "XLB_NAMESPACE_DIRECTORIES"
	nriVariable      = "XLB_NRI"
	podsVariable     = "XLB_PODS"
	viewsVariable    = "XLB_VIEWS"
)

func envoyCommand(e *env) *cobra.Command {
	var f envoyFlags
	c := &cobra.Command{
		Use:   envoyVerb + " [flags] [-- ignored]",
		Short: "Run as a process manager of Envoy runs Envoy",
		Long: `Takes the command line of Envoy and runs the daemon, so that XLB can stand where something starts
Envoy: Envoy Gateway on a host, func-e, an init script. A link to xlb with the name envoy does so
without the verb. Arguments that change nothing here are accepted, and the log says so; all others
are refused. What stands behind "--" is ignored, as by Envoy.

Unlike "xlb run" it adds the headers that Envoy adds, and serves every request in this process: who
replaces Envoy expects its answers. With --envoy-headers=off local processes have the fast path.

XLB's own arguments may be given as environment variables: ` + strings.Join([]string{cgroupVariable, adminVariable, hostsVariable, fastPathVariable, headersVariable, whenDownVariable, sameHostVariable, namesVariable, nameDirsVariable, nriVariable, podsVariable, viewsVariable}, ", ") + `.`,
		Example: `  xlb envoy -c envoy.yaml --service-node gateway-1 --service-cluster gateway
  ln -s /usr/bin/xlb /opt/envoy/bin/envoy`,
		Args: func(c *cobra.Command, args []string) error {
			if dash := c.ArgsLenAtDash(); len(args) > 0 && dash != 0 {
				return fmt.Errorf("envoy: unexpected argument %q", args[0])
			}
			return nil
		},
	}
	f.add(c.Flags())
	c.RunE = func(c *cobra.Command, _ []string) error {
		return asEnvoy(f.run(c, e))
	}
	return reloads(c)
}

func (f *envoyFlags) add(flags *pflag.FlagSet) {
	flags.StringVarP(&f.path, "config-path", "c", "", "Envoy v3 bootstrap `file`, YAML or JSON")
	flags.StringVar(&f.text, "config-yaml", "", "the bootstrap itself, in `YAML`")
	flags.StringVar(&f.mode, "mode", "serve", "serve, or validate to check the bootstrap only")
	flags.StringVar(&f.adminPath, "admin-address-path", "", "`file` to write the address of the admin API to")
	flags.StringVar(&f.logPath, "log-path", "", "`file` of the log (default: standard error)")
	flags.StringVarP(&f.logLevel, "log-level", "l", "info", "trace, debug, info, warning, error, critical or off")
	flags.StringVar(&f.node.Cluster, "service-cluster", "", "cluster of this node, before node.cluster of the bootstrap")
	flags.StringVar(&f.node.ID, "service-node", "", "name of this node, before node.id")
	flags.StringVar(&f.node.Zone, "service-zone", "", "zone of this node, before node.locality.zone")
	flags.Uint32Var(&f.drain, "drain-time-s", 600, "`seconds` that requests in flight may take at the end")
	flags.Uint32Var(&f.epoch, "restart-epoch", 0, "0: there is no hot restart")
	flags.BoolVar(&f.showVersion, "version", false, "print the version")
	flags.StringArrayVar(&f.cgroups, "cgroup", nil, "as in \"xlb run\"")
	flags.StringVar(&f.admin, "admin", os.Getenv(adminVariable), "`address` of the admin API, host:port, unix:PATH, or none (default: the bootstrap's, and none without one, as in Envoy)")
	flags.StringVar(&f.adminHosts, "admin-host", os.Getenv(hostsVariable), "`names` by which the admin API may be asked for, with commas between them")
	flags.StringVar(&f.fastPath, "fast-path", cmp.Or(os.Getenv(fastPathVariable), fastPathAuto), "as in \"xlb run\"")
	flags.StringVar(&f.whenDown, "when-down", cmp.Or(os.Getenv(whenDownVariable), passWhenDown), "as in \"xlb run\"")
	flags.StringVar(&f.sameHost, "same-host", cmp.Or(os.Getenv(sameHostVariable), sameHostDirect), "as in \"xlb run\"")
	flags.StringVar(&f.namespaces, "namespaces", cmp.Or(os.Getenv(namesVariable), namespacesAuto), "as in \"xlb run\"")
	flags.StringArrayVar(&f.namespaceDirs, "namespace-directory", nil, "as in \"xlb run\"")
	flags.StringVar(&f.nri, "nri", cmp.Or(os.Getenv(nriVariable), nriAuto), "as in \"xlb run\"")
	flags.StringVar(&f.pods, "pods", cmp.Or(os.Getenv(podsVariable), podsAll), "as in \"xlb run\"")
	flags.StringVar(&f.views, "views", os.Getenv(viewsVariable), "as in \"xlb run\"")
	flags.StringVar(&f.headers, "envoy-headers", cmp.Or(os.Getenv(headersVariable), "on"), "on: "+envoyHeadersUsage+"; or off")
	for _, p := range passedOver {
		if p.takesValue {
			flags.StringP(p.name, p.shorthand, "", "changes nothing: "+p.why)
		} else {
			flags.BoolP(p.name, p.shorthand, false, "changes nothing: "+p.why)
		}
	}
}

// envoyExit is Envoy's exit code for whatever prevents it from running, or ends it early.
const envoyExit = 1

func asEnvoy(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: envoyExit, err: err}
}

func (f *envoyFlags) run(c *cobra.Command, e *env) error {
	if f.showVersion {
		return printVersion(e, formatText)
	}
	runs, log, err := f.runFlags(e)
	if err != nil {
		return err
	}
	defer log.Close()
	if f.mode == "validate" {
		hangup.Default()
		return f.validate(e, node.Options{ConfigPath: runs.config, ConfigText: []byte(f.text), Node: f.node, EnvoyHeaders: runs.envoyHeaders})
	}
	o, err := runs.options(&env{stdout: e.stdout, stderr: log})
	if err != nil {
		return err
	}
	o.ConfigText, o.Node, o.AdminAddressPath = []byte(f.text), f.node, f.adminPath
	for _, p := range passedOver {
		if c.Flags().Changed(p.name) {
			o.Logger.Info("an argument changes nothing here", "argument", "--"+p.name, "why", p.why)
		}
	}
	return runs.runDaemon(c.Context(), o)
}

// validate is Envoy's --mode validate.
func (f *envoyFlags) validate(e *env, o node.Options) error {
	if err := node.Validate(o); err != nil {
		return err
	}
	_, err := fmt.Fprintln(e.stdout, "configuration OK")
	return err
}

// runFlags are the flags of "xlb run" that mean the same, and where the log goes.
func (f *envoyFlags) runFlags(e *env) (*runFlags, io.WriteCloser, error) {
	var problems []error
	if (f.path == "") == (f.text == "") {
		problems = append(problems, errors.New("give one of --config-path and --config-yaml: XLB does not merge bootstraps"))
	}
	if f.epoch != 0 {
		problems = append(problems, fmt.Errorf("--restart-epoch %d: not supported: there is no hot restart; use 0", f.epoch))
	}
	if f.mode != "serve" && f.mode != "validate" {
		problems = append(problems, fmt.Errorf("--mode %q: not supported; use serve or validate", f.mode))
	}
	if f.headers != "on" && f.headers != "off" {
		problems = append(problems, fmt.Errorf("--envoy-headers %q: use on or off", f.headers))
	}
	if _, err := logging.Level(f.logLevel); err != nil {
		problems = append(problems, fmt.Errorf("--log-level %q: not a level of Envoy's", f.logLevel))
	}
	cgroups := f.cgroups
	if list := os.Getenv(cgroupVariable); len(cgroups) == 0 && list != "" {
		cgroups = filepath.SplitList(list)
	}
	namespaceDirs := f.namespaceDirs
	if list := os.Getenv(nameDirsVariable); namespaceDirs == nil && list != "" {
		namespaceDirs = filepath.SplitList(list)
	}
	if len(problems) > 0 {
		return nil, nil, errors.Join(problems...)
	}
	log := io.WriteCloser(nopCloser{e.stderr})
	if f.logPath != "" {
		file, err := os.OpenFile(f.logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, nil, fmt.Errorf("--log-path: %w; name a file that can be written, or leave the option out for standard error", err)
		}
		log = file
	}
	return &runFlags{
		config: cmp.Or(f.path, "--config-yaml"), cgroups: cgroups, admin: f.admin, adminHosts: strings.Split(f.adminHosts, ","), fastPath: f.fastPath,
		drain: time.Duration(f.drain) * time.Second, logLevel: f.logLevel, envoyHeaders: f.headers == "on", whenDown: f.whenDown, sameHost: f.sameHost, namespaces: f.namespaces,
		namespaceDirs: namespaceDirs, nri: f.nri, pods: f.pods, views: f.views,
	}, log, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
