// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/explain"
)

// explainOptions say what to explain, and who answers.
type explainOptions struct {
	query explain.Query
	// file to explain from; "" asks the daemon at the admin address.
	file, admin string
	// envoyHeaders is how the file is to be read.
	envoyHeaders bool
	// pod and pid name the client; "" and 0: it is left open.
	pod string
	pid int
}

func explainCommand(e *env) *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:   "explain METHOD URL",
		Short: "Say which route a request takes, why, and whether the kernel serves it",
		Long: `Gives an account of one request, without sending it: listener, virtual host, every
route that was considered and what it lacks, the action and the endpoints of the one
that won, and whether the request is fast or handed over to the slow path, and why.

The URL's host and port choose the listener. A name does as well where there is one
listener, or --listener names one; it is then what routes see.

A running daemon is asked by its admin API: the loaded kernel program decides over the
loaded maps, and the account says so if that is not what the routes ask for. With
--config the answer comes from a file: then the compiled table stands for the kernel,
and how the request is framed (Connection, Upgrade, Transfer-Encoding and the like) is
not looked at.

The routes are those of the shared configuration, or with --view those of another one that
some workloads have ("xlb run --views"). With --pod or --pid they are those that the client's
network namespace has, and the account also says whether new connections of it are balanced,
as "xlb get workloads" has it; "xlb check --pid" says all that decides over a process, its
cgroup among it.

Exit code 1 means that no route was found, which is answered 404, that new
connections of the client are not balanced, or that kernel and routes disagree, which is a
defect of XLB; 2 that the question cannot be answered.`,
		Example: "  xlb explain GET http://127.80.0.1:8080/cart\n" +
			"  xlb explain GET http://shop.test/cart -H 'x-canary: yes' --listener web\n" +
			"  xlb explain GET http://127.80.0.1:8080/cart --pod shop/cart-7d4b9c6f5-x2x7k\n" +
			"  xlb explain --config envoy.yaml POST http://shop.test/buy --output json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errors.New("explain: want a method and a URL, as in: xlb explain GET http://127.80.0.1:8080/cart")
			}
			return nil
		},
	}
	c.Flags().StringVarP(&o.file, "config", "c", "", "Envoy v3 bootstrap `file` to explain from, in place of a daemon")
	c.Flags().StringVar(&o.admin, "admin", admin.DefaultAddress, adminUsage)
	c.Flags().StringArrayVarP(&o.query.Headers, "header", "H", nil, "header of the request, as `'name: value'`; may be repeated")
	c.Flags().StringVar(&o.query.Listener, "listener", "", "`name` or address of the listener, whatever the URL says")
	c.Flags().BoolVar(&o.envoyHeaders, "envoy-headers", false, "with --config: as \"xlb run --envoy-headers\" would serve it")
	draw := c.Flags().Uint32("draw", 0, "the request's random `number`, which decides over fractions (default random)")
	c.Flags().StringVar(&o.pod, "pod", "", "`NAMESPACE/NAME`, or UID, of the pod that sends the request")
	completes(c, "pod")
	c.Flags().IntVar(&o.pid, "pid", 0, "`number` of the process that sends the request")
	c.Flags().StringVar(&o.query.View, "view", "", "`name` of the view whose configuration is explained (default that of the client, or the shared one)")
	completes(c, "view")
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		o.query.Method, o.query.URL = args[0], args[1]
		if o.query.Draw = *draw; !c.Flags().Changed("draw") {
			o.query.Draw = rand.Uint32()
		}
		if err := o.findClient(c); err != nil {
			return err
		}
		answer, err := o.ask(c.Context())
		if err != nil {
			return err
		}
		if err := printAnswer(e, *output, answer); err != nil {
			return err
		}
		return verdictOn(answer)
	}
	return c
}

// findClient completes the query with the client's network namespace.
func (o *explainOptions) findClient(c *cobra.Command) (err error) {
	pod, pid := c.Flags().Changed("pod"), c.Flags().Changed("pid")
	switch {
	case pod && pid:
		return refused(errors.New("explain: --pod and --pid: want one client; leave one of the two out"))
	case (pod || pid) && o.file != "":
		return refused(errors.New("explain: --pod and --pid: not with --config: which clients are balanced a daemon knows, and no file; leave --config out to ask one"))
	case o.query.View != "" && o.file != "":
		return refused(errors.New("explain: --view: not with --config, which names the file of one view: name that of the view with --config, or leave --config out to ask a daemon"))
	case pod:
		o.query.Netns, err = namespaceOfPod(c.Context(), o.admin, o.pod)
	case pid:
		o.query.Netns, err = namespaceOfProcess(o.pid)
		err = refused(err)
	}
	return err
}

func (o *explainOptions) ask(ctx context.Context) (*explain.Answer, error) {
	if o.file != "" {
		return o.askFile()
	}
	body, err := askAdmin(ctx, o.admin, explain.Path+"?"+o.query.Values().Encode())
	if err != nil {
		return nil, err
	}
	answer := &explain.Answer{}
	if err := json.Unmarshal(body, answer); err != nil {
		return nil, fmt.Errorf("explain: the daemon's answer is not ours: %w; use the xlb of the daemon's version", err)
	}
	return answer, nil
}

func (o *explainOptions) askFile() (*explain.Answer, error) {
	cfg, err := config.Load(o.file, config.EnvoyHeaders(o.envoyHeaders))
	if err != nil {
		return nil, refused(err)
	}
	answer, err := explain.Explain(explain.Compiled(cfg), &o.query)
	return answer, refused(err)
}

// verdictOn is the error that the exit code tells of.
func verdictOn(a *explain.Answer) error {
	switch {
	case a.Disagreement != "":
		return fmt.Errorf("explain: %s; this is a defect of XLB: report it with the configuration, and use --fast-path=off until it is mended",
			a.Disagreement)
	case a.IsUnbalanced():
		return fmt.Errorf("explain: new connections of the client (%s) are not balanced: %s", clientName(a.Workload), clientState(a.Workload))
	case a.Action != nil && a.Action.Kind == explain.Refused:
		return fmt.Errorf("explain: %s: the answer is %d", a.Action.Because, a.Action.Status)
	case a.IsAnswered():
		return nil
	case a.VirtualHost == nil:
		return fmt.Errorf("explain: no virtual host of listener %q has a domain for %q: the answer is 404", a.Listener.Name, a.Request.Authority)
	case a.Winner == 0:
		return fmt.Errorf("explain: no route of virtual host %q matches: the answer is 404", a.VirtualHost.Name)
	}
	return nil
}
