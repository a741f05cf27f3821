// SPDX-License-Identifier: Apache-2.0

package istiod

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

const (
	podsPath     = "/api/v1/namespaces/default/pods"
	accountsPath = "/api/v1/namespaces/default/serviceaccounts"
	securityPath = "/apis/security.istio.io/v1/namespaces/default/"
	// podPort is where both pods listen: the one with a sidecar by way of that.
	podPort = 9443
)

// token has the API server make a token for a service account, as a kubelet does.
func (k *kubernetes) token(t *testing.T, account string) string {
	t.Helper()
	status, answer, err := k.do(http.MethodPost, accountsPath+"/"+account+"/token", object{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{"audiences": []string{"istio-ca"}, "expirationSeconds": 3600},
	})
	var made struct{ Status struct{ Token string } }
	if err != nil || status != http.StatusCreated || json.Unmarshal(answer, &made) != nil || made.Status.Token == "" {
		t.Fatalf("token of %s: %d %s %v", account, status, answer, err)
	}
	return made.Status.Token
}

// createPod makes a pod that runs, as a kubelet would tell of it. The name is that of its service account and of its label app.
func (k *kubernetes) createPod(t *testing.T, name, address string, labels map[string]string) {
	t.Helper()
	all := object{"app": name}
	for key, value := range labels {
		all[key] = value
	}
	pod := object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name, "namespace": "default", "labels": all},
		"spec": object{"serviceAccountName": name, "containers": []any{object{"name": "server", "image": "server"}}},
	}
	k.create(t, accountsPath, object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": name, "namespace": "default"}})
	k.create(t, podsPath, pod)
	pod["status"] = object{
		"phase": "Running", "podIP": address, "podIPs": []any{object{"ip": address}},
		"conditions": []any{object{"type": "Ready", "status": "True"}},
	}
	k.replace(t, podsPath+"/"+name+"/status", pod)
}

// podSlice is a slice of a service whose endpoints are pods, by name with their addresses.
func podSlice(service string, pods map[string]string) object {
	slice := sliceObject(service)
	endpoints := []any{}
	for name, address := range pods {
		endpoints = append(endpoints, object{
			"addresses": []string{address}, "conditions": object{"ready": true},
			"targetRef": object{"kind": "Pod", "name": name, "namespace": "default"},
		})
	}
	slice["endpoints"] = endpoints
	slice["ports"] = []any{object{"name": "http", "port": podPort, "protocol": "TCP"}}
	return slice
}

func securityObject(kind, name string, spec object) object {
	return object{"apiVersion": "security.istio.io/v1", "kind": kind, "metadata": object{"name": name, "namespace": "default"}, "spec": spec}
}

// peers says what the servers of the namespace accept.
func peers(mode string) object {
	return securityObject("PeerAuthentication", "default", object{"mtls": object{"mode": mode}})
}

// A service has a pod with a sidecar, which its label tells, and one without. Istio sends the first tlsMode: istio: XLB speaks mutual TLS with it, with a
// certificate for a token of the API server, and plain text with the other, as Envoy does. What PeerAuthentication says is followed without a lost request.
func TestKubernetesPodsWithSidecarsAreReachedByMutualTLS(t *testing.T) {
	place := harness.Isolated(t)
	pods := map[string]string{"web": addressA, "bare": addressB}
	for _, address := range pods {
		place.AddAddress(t, address+"/32")
	}
	place.OriginAt(t, "web", netip.MustParseAddrPort("127.0.0.1:8000"))
	place.OriginAt(t, "bare", netip.AddrPortFrom(netip.MustParseAddr(addressB), podPort))
	k := startKubernetes(t, place)
	k.createDefinitions(t)
	k.create(t, "/api/v1/namespaces", object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "istio-system"}})
	for _, app := range []string{"xlb", "envoy"} {
		k.create(t, istioPath+"sidecars", sidecarObject(app, map[string]string{"xlb": "127.82.1.1", "envoy": "127.82.1.2"}[app]))
	}
	k.create(t, istioPath+"sidecars", webSidecar())
	k.create(t, securityPath+"peerauthentications", peers("STRICT"))
	// The server's sidecar tells who the client is.
	k.create(t, securityPath+"authorizationpolicies", securityObject("AuthorizationPolicy", "web", object{
		"selector": object{"matchLabels": object{"app": "web"}},
		"rules":    []any{object{"from": []any{object{"source": object{"principals": []string{"cluster.local/ns/default/sa/caller"}}}}}},
	}))
	k.create(t, istioPath+"destinationrules", istioObject("DestinationRule", "shop", object{
		"host": shop, "trafficPolicy": object{"loadBalancer": object{"simple": "ROUND_ROBIN"}},
	}))
	k.createPod(t, "web", addressA, map[string]string{"security.istio.io/tlsMode": "istio"})
	k.createPod(t, "bare", addressB, nil)
	k.create(t, accountsPath, object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": "caller", "namespace": "default"}})
	k.create(t, servicesPath, serviceObject("shop"))
	k.create(t, slicesPath, podSlice("shop", pods))

	w := &world{place: place}
	w.control = startIstiod(t, place, k.kubeconfig, "testdata/mesh-mtls.yaml", false, slices.Concat(upstream, newAuthority(t))...)
	caller := newAgent(t, w.control, k.token(t, "caller"))
	mode := harness.Modes(t)[0]
	sidecar := harness.StartEnvoy(t, w.bootstrapWith("web", newAgent(t, w.control, k.token(t, "web"))), place)
	w.xlb = harness.Start(t, mode, w.bootstrapWith("xlb", caller), place)
	w.envoy = harness.StartEnvoy(t, w.bootstrapWith("envoy", caller), place)
	for _, to := range []string{atXLB, atEnvoy} {
		for pod := range pods {
			w.await(t, to, request{"GET", shop, "/", ""}, func(r programs.Reply) bool { return r.Status == http.StatusOK && r.Identity == pod })
		}
	}

	handshakes := sidecar.Metric(t, "envoy_listener_ssl_handshake")
	if handshakes == 0 {
		t.Error("STRICT: the sidecar has seen no TLS")
	}
	w.requireShares(t)
	plain := func() (int, error) {
		reply, err := place.HTTPClient().Get("http://" + netip.AddrPortFrom(netip.MustParseAddr(addressA), podPort).String() + "/")
		if err != nil {
			return 0, err
		}
		return reply.StatusCode, reply.Body.Close()
	}
	if status, err := plain(); err == nil {
		t.Errorf("STRICT: without TLS the sidecar answers %d", status)
	}

	load := place.Program(t, programs.LoadProgram, programs.LoadSpec{
		Address: atXLB, Connections: 2, Asks: []programs.Ask{{Path: "/", Host: shop}}, Pause: time.Millisecond,
	})
	k.replacePeers(t, "PERMISSIVE")
	harness.Eventually(t, patience, "PERMISSIVE: without TLS the sidecar knows no client", func() bool {
		status, err := plain()
		return err == nil && status == http.StatusForbidden
	})
	w.requireShares(t)
	// The pod with a sidecar goes and comes.
	one := &watched{load: load}
	for range 2 {
		k.replace(t, slicesPath+"/shop-1", podSlice("shop", map[string]string{"bare": addressB}))
		harness.Eventually(t, patience, "the pod that is gone serves no more", func() bool {
			n := one.served(t, "web")
			time.Sleep(100 * time.Millisecond)
			return one.served(t, "web") == n
		})
		n := one.served(t, "web")
		k.replace(t, slicesPath+"/shop-1", podSlice("shop", pods))
		harness.Eventually(t, patience, "the pod serves again", func() bool { return one.served(t, "web") > n })
	}
	k.replacePeers(t, "STRICT")
	harness.Eventually(t, patience, "STRICT: without TLS the sidecar answers nobody", func() bool { _, err := plain(); return err != nil })
	w.requireShares(t)
	var r programs.LoadReport
	load.Finish(t, &r)
	if r.Failed != 0 || r.Total < 100 {
		t.Errorf("%d of %d requests failed: %v", r.Failed, r.Total, r.Failures)
	}
	fast, slow := w.xlb.Served(t)
	t.Logf("%d requests, none failed, %v; %v in the kernel, %v in the daemon; handshakes: %v", r.Total, r.Served, fast, slow, sidecar.Metric(t, "envoy_listener_ssl_handshake"))
	if mode.Fast && fast == 0 {
		t.Error("the kernel serves nobody, also not the pod without a sidecar")
	}
	if refused := w.log.lines("ACK ERROR"); len(refused) > 0 {
		t.Errorf("istiod was told: %v", refused)
	}
}

// webSidecar has the server's sidecar listen where its pod does.
func webSidecar() object {
	return istioObject("Sidecar", "web", object{
		"workloadSelector": object{"labels": object{"app": "web"}},
		"ingress": []any{object{
			"port": object{"number": podPort, "protocol": "HTTP", "name": "http"}, "bind": addressA, "captureMode": "NONE", "defaultEndpoint": "127.0.0.1:8000",
		}},
		"egress": []any{object{
			"port": object{"number": 9080, "protocol": "HTTP", "name": "http"}, "bind": "127.82.2.2", "captureMode": "NONE", "hosts": []string{"./*"},
		}},
	})
}

// replacePeers changes what is accepted. The API server wants to be told which version is replaced.
func (k *kubernetes) replacePeers(t *testing.T, mode string) {
	t.Helper()
	const path = securityPath + "peerauthentications/default"
	_, answer, err := k.do(http.MethodGet, path, nil)
	var old struct {
		Metadata struct{ ResourceVersion string }
	}
	if err != nil || json.Unmarshal(answer, &old) != nil {
		t.Fatalf("%s: %s %v", path, answer, err)
	}
	changed := peers(mode)
	changed["metadata"].(object)["resourceVersion"] = old.Metadata.ResourceVersion
	k.replace(t, path, changed)
}

// requireShares demands that both pods serve alike, by XLB and by Envoy.
func (w *world) requireShares(t *testing.T) {
	t.Helper()
	const n = 100
	for _, to := range []string{atXLB, atEnvoy} {
		got := map[string]int{}
		for _, reply := range ask(t, w.place, to, times(n, request{"GET", shop, "/", ""})...) {
			if reply.Status != http.StatusOK {
				t.Fatalf("%s: %d %q", to, reply.Status, reply.Body)
			}
			got[reply.Identity]++
		}
		// Each of Envoy's threads takes turns of its own.
		if got["web"] < n/4 || got["bare"] < n/4 || got["web"]+got["bare"] != n {
			t.Errorf("%s: %v", to, got)
		}
	}
}
