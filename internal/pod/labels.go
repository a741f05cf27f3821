// SPDX-License-Identifier: Apache-2.0

package pod

// Labels of a pod that say whether it is to be balanced.
const (
	// Label is XLB's own, "true" or "false". It goes before Istio's.
	Label = "xlb-project.github.io/balance"
	// IstioLabel is Istio's, by which a pod chooses the data plane. XLB takes "none", and "xlb" for itself.
	IstioLabel = "istio.io/dataplane-mode"
)

// longestValue bounds what is kept of a label's value that is not understood. Kubernetes takes 63 bytes.
const longestValue = 63

// Wish is what a pod's labels ask for.
type Wish struct {
	Choice Choice
	// Label is the label that says so, as "name: value"; empty: none does.
	Label string
	// Unread is Label with a value that is neither "true" nor "false", and says nothing, likewise; of a longer value the first 63 bytes.
	Unread string
}

// Choice says whether a pod is to be balanced.
type Choice uint8

const (
	// NoChoice: no label says anything.
	NoChoice Choice = iota
	// In: it is to be balanced.
	In
	// Out: it is to be left alone.
	Out
)

// WishOf is what labels ask for. Values are compared byte by byte, as Kubernetes does.
func WishOf(labels map[string]string) Wish {
	var w Wish
	if value, ok := labels[Label]; ok {
		switch value {
		case "true":
			return Wish{Choice: In, Label: Label + ": true"}
		case "false":
			return Wish{Choice: Out, Label: Label + ": false"}
		}
		w.Unread = Label + ": " + value[:min(longestValue, len(value))]
	}
	switch value := labels[IstioLabel]; value {
	case "xlb":
		w.Choice, w.Label = In, IstioLabel+": "+value
	case "none":
		w.Choice, w.Label = Out, IstioLabel+": "+value
	}
	return w
}
