package charttest

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite testdata")

const chart = "../chart"

// values returns the values of an example, none for "default".
func values(t *testing.T, name string) map[string]any {
	t.Helper()
	if name == "default" {
		return map[string]any{}
	}
	raw, err := os.ReadFile(filepath.Join(chart, "examples", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := yaml.UnmarshalStrict(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// render is helm template.
func render(t *testing.T, vals map[string]any) (map[string]string, error) {
	t.Helper()
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	release := common.ReleaseOptions{Name: "gatehouse", Namespace: "auth", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, vals, release, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// kinds are the types of what a manifest can be.
var kinds = map[string]func() any{
	"ConfigMap": func() any { return new(corev1.ConfigMap) }, "Service": func() any { return new(corev1.Service) },
	"ServiceAccount": func() any { return new(corev1.ServiceAccount) }, "Deployment": func() any { return new(appsv1.Deployment) },
	"PodDisruptionBudget": func() any { return new(policyv1.PodDisruptionBudget) },
	"NetworkPolicy":       func() any { return new(networkingv1.NetworkPolicy) }, "Ingress": func() any { return new(networkingv1.Ingress) },
	"ServiceMonitor": func() any { return new(monitoringv1.ServiceMonitor) }, "HTTPRoute": func() any { return new(gatewayv1.HTTPRoute) },
}

// TestChart lints the chart with the values of each example and renders it. What it renders is decoded strictly into
// the types of Kubernetes, the Gateway API and the Prometheus operator, and compared with testdata.
func TestChart(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"default": "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service ServiceAccount",
		"ingress": "ConfigMap Deployment Ingress NetworkPolicy PodDisruptionBudget Service ServiceAccount ServiceMonitor",
		"gateway": "ConfigMap Deployment HTTPRoute NetworkPolicy PodDisruptionBudget Service ServiceAccount",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, m := range lint.RunAll(chart, values(t, name), "auth").Messages {
				if m.Severity > support.InfoSev {
					t.Errorf("helm lint: %s", m)
				}
			}
			rendered, err := render(t, values(t, name))
			if err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			var found []string
			for _, file := range slices.Sorted(maps.Keys(rendered)) {
				if !strings.HasSuffix(file, ".yaml") {
					continue
				}
				for doc := range strings.SplitSeq(rendered[file], "\n---\n") {
					if doc = strings.TrimSpace(doc); doc == "" {
						continue
					}
					all.WriteString("---\n" + doc + "\n")
					found = append(found, decode(t, doc))
				}
			}
			slices.Sort(found)
			if got := strings.Join(found, " "); got != want {
				t.Errorf("the chart renders %s, want %s", got, want)
			}
			golden := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(golden, []byte(all.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if all.String() != string(before) {
				t.Errorf("%s is not what the chart renders: go test ./... -update\n%s", golden, all.String())
			}
		})
	}
}

// decode reads a manifest without a member that its kind does not have, and returns the kind.
func decode(t *testing.T, doc string) string {
	t.Helper()
	var head struct {
		Kind     string
		Metadata struct{ Name string }
	}
	if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	made, known := kinds[head.Kind]
	if !known {
		t.Fatalf("the kind %q is not known here", head.Kind)
	}
	object := made()
	if err := yaml.UnmarshalStrict([]byte(doc), object); err != nil {
		t.Errorf("%s %s: %v\n%s", head.Kind, head.Metadata.Name, err, doc)
	}
	if d, ok := object.(*appsv1.Deployment); ok {
		isHardened(t, d)
	}
	return head.Kind
}

// isHardened checks what keeps a container small, and that a database that is away does not restart it.
func isHardened(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	pod := d.Spec.Template.Spec
	c := pod.Containers[0]
	s := c.SecurityContext
	if *d.Spec.Replicas < 2 || *pod.AutomountServiceAccountToken || !*pod.SecurityContext.RunAsNonRoot || !*s.ReadOnlyRootFilesystem ||
		*s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("the pod is %+v", pod)
	}
	if c.ReadinessProbe.HTTPGet == nil || c.ReadinessProbe.HTTPGet.Path != "/healthz" || c.LivenessProbe.HTTPGet != nil {
		t.Errorf("the probes are %+v and %+v, want one of /healthz that does not restart the container", c.ReadinessProbe, c.LivenessProbe)
	}
	for _, e := range c.Env {
		if e.Value != "" {
			t.Errorf("the variable %s has its value in the manifest", e.Name)
		}
	}
}

// TestSecretOfGuide: the Secret that docs/cluster.md makes has each key that a container of the examples reads from it.
func TestSecretOfGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	_, guide, found := bytes.Cut(guide, []byte("create secret generic gatehouse"))
	guide, _, _ = bytes.Cut(guide, []byte("\nhelm "))
	if !found {
		t.Fatal("the guide makes no Secret")
	}
	for _, name := range []string{"default", "ingress", "gateway"} {
		rendered, err := render(t, values(t, name))
		if err != nil {
			t.Fatal(err)
		}
		var d appsv1.Deployment
		if err := yaml.Unmarshal([]byte(rendered["gatehouse/templates/deployment.yaml"]), &d); err != nil {
			t.Fatal(err)
		}
		if len(d.Spec.Template.Spec.Containers) != 1 {
			t.Fatalf("the example %s has the containers %+v", name, d.Spec.Template.Spec.Containers)
		}
		for _, e := range d.Spec.Template.Spec.Containers[0].Env {
			if key := e.ValueFrom.SecretKeyRef.Key; !bytes.Contains(guide, []byte("--from-literal="+key+"=")) {
				t.Errorf("the example %s reads the key %s, which the Secret of the guide does not have", name, key)
			}
		}
	}
}

// TestWrongValues: values that cannot work are refused by the schema of the chart.
func TestWrongValues(t *testing.T) {
	t.Parallel()
	for name, vals := range map[string]map[string]any{
		"an issuer over HTTP":      {"issuer": "http://auth.example.com"},
		"an issuer with a path":    {"issuer": "https://auth.example.com/x"},
		"no replica":               {"replicas": 0},
		"no secret":                {"secret": ""},
		"no trusted proxy":         {"trustedProxies": []any{}},
		"a route without gateways": {"gateway": map[string]any{"enabled": true}},
	} {
		if _, err := render(t, vals); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
