// Package charttest tests the Helm chart with Helm's own code. It is a module of its own, since Helm brings the clients
// of Kubernetes.
package charttest
