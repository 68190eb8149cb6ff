package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/client"
)

// TestClientFlagsChangeClients: `client set` changes what each flag of `client add` sets, and knows no flag that it
// would pass over.
func TestClientFlagsChangeClients(t *testing.T) {
	t.Parallel()
	flags := pflag.NewFlagSet("client", pflag.ContinueOnError)
	var c client.Client
	clientFlags(flags, &c)
	flags.VisitAll(func(f *pflag.Flag) {
		if adminapi.ClientMembers[strings.ReplaceAll(f.Name, "-", "_")] == nil {
			t.Errorf("`client set --%s` changes nothing", f.Name)
		}
	})
	for _, name := range []string{
		"authorization-details-types", "require-signed-request-object", "request-object-signing-alg",
		"authorization-signed-response-alg",
	} {
		if flags.Lookup(name) == nil {
			t.Errorf("there is no flag --%s", name)
		}
	}
}
