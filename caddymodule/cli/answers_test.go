package cli_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/identity/keystore"
)

// answered returns what a command prints when the server gives this answer, whatever it is asked.
func answered(t *testing.T, answer string, args ...string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(answer)) //nolint:errcheck // to a test
	}))
	defer server.Close()
	out, err := servertest.Run(t, "", append(args, "--address", strings.TrimPrefix(server.URL, "http://"))...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out
}

// TestPrintedTextSteersNoTerminal: whatever a name or a reason has, it can neither move the cursor nor make a line of a
// table of its own.
func TestPrintedTextSteersNoTerminal(t *testing.T) {
	t.Parallel()
	const list = `[{"id":"shop","name":"a\u001b[2J\nforged\tenabled\u202e","stored":true,"grants":[]}]`
	want := "ID    KIND          STATE    FROM  NAME                   GRANTS\n" +
		"shop  confidential  enabled  -     a?[2J?forged?enabled?  -\n1 client\n"
	if got := answered(t, list, "client", "list"); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	const added = `{"id":"shop","warnings":["reason\u0007 \u001b]0;title\u0007"]}`
	want = "added client shop\nwarning: reason? ?]0;title?\n"
	if got := answered(t, added, "client", "add", "shop"); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

// TestLinesOfASwitch: former keys are said to decrypt only if their type can.
func TestLinesOfASwitch(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		keystore.RSA: "still decrypt", keystore.EC: "still decrypt", keystore.MLDSA: "are still published",
	} {
		got := answered(t, `{"name":"saml","key_type":"`+kind+`","next_step":"retire"}`, "key-pair", "switch", "saml")
		if !strings.Contains(got, want) || strings.Contains(got, "decrypt") != strings.Contains(want, "decrypt") ||
			!strings.HasSuffix(got, "caddy gatehouse key-pair retire saml\n") {
			t.Errorf("keys of the type %s: %q, want that they %s", kind, got, want)
		}
	}
}

// TestClientFlagsChangeClients: `client set` changes what each flag of `client add` sets, and knows no flag that it
// would pass over.
func TestClientFlagsChangeClients(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "gatehouse"}
	caddycmd.Commands()["gatehouse"].CobraFunc(root)
	flagsOf := func(command string) map[string]bool {
		cmd, _, err := root.Find([]string{"client", command})
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
		return names
	}
	set := flagsOf("set")
	for name := range set {
		if adminapi.ClientMembers[strings.ReplaceAll(name, "-", "_")] == nil {
			t.Errorf("`client set --%s` changes nothing", name)
		}
	}
	add := flagsOf("add")
	for _, name := range []string{"file", "for", "url", "public"} { // which make a client, and cannot change one
		delete(add, name)
	}
	for name := range add {
		if !set[name] {
			t.Errorf("`client set` has no flag --%s", name)
		}
	}
	for _, name := range []string{
		"authorization-details-types", "require-signed-request-object", "request-object-signing-alg",
		"authorization-signed-response-alg",
	} {
		if !set[name] {
			t.Errorf("there is no flag --%s", name)
		}
	}
}
