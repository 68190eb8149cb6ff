package cli

import (
	"cmp"
	"encoding/base64"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/identity/keystore"
)

func keyPairCommands() *cobra.Command {
	return group("key-pair", "Lists and rotates the key pairs by which providers and SAML applications know Gatehouse",
		append(completeArguments(completeKeyPairs,
			keyPairStep(keystore.Announce, "Publishes the next keys of a pair next to those in use", `Makes the next keys of a pair, and publishes them in the metadata and key sets next to those in use, which stay in
use. Prints their certificate, for those who do not read metadata. Go on with switch when everyone knows it.`),
			keyPairStep(keystore.Switch, "Uses the keys that were announced", `Lets the keys that were announced take the place of those in use. The former ones stay published and, except for
ML-DSA keys, which only sign, decrypt what is still encrypted for them. Go on with retire when everyone has read the new metadata.`),
			keyPairStep(keystore.Retire, "Removes the former keys of a pair",
				"Removes the keys that others have taken the place of: what is still encrypted for them cannot be read any more."),
			keyPairStep(keystore.Renew, "Replaces the keys of a pair immediately", `Replaces the keys of a pair immediately, such as those that may have leaked, and ends a rotation. Everybody who knows the
old certificate refuses what Gatehouse signs until the new metadata is read.`),
		), listKeyPairsCommand())...)
}

func listKeyPairsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "Lists the key pairs, Gatehouse's own included, with the stage of their rotation", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			header := []string{"NAME", "TYPE", "STAGE", "NEXT STEP", "SINCE", "ENDS", "SHA-256", "USED BY"}
			return showTable(cmd, "/key-pairs", nil, "key pair", header, func(p *keystore.Rotation) []string {
				since, now := time.Time{}, &keystore.PublicPart{}
				for _, beside := range []*keystore.PublicPart{p.Next, p.Former} {
					if beside != nil {
						since = beside.Since
					}
				}
				if p.Current != nil {
					now = p.Current
				}
				return []string{
					cmp.Or(p.Name, "("+p.ID+")"), p.KeyType, string(p.Stage), cmp.Or(string(p.NextStep), "-"), day(since),
					day(now.NotAfter), now.SHA256[:min(16, len(now.SHA256))], strings.Join(p.UsedBy, ", "),
				}
			})
		},
	}
}

// keyPairStep is the command of a step.
func keyPairStep(step keystore.Step, short, long string) *cobra.Command {
	cmd := &cobra.Command{
		Use: string(step) + " [name or id]", Short: short, Long: long + "\nWithout a name it is Gatehouse's own key pair.",
		Args:    cobra.MaximumNArgs(1),
		Example: "  caddy gatehouse key-pair " + string(step) + " saml-2026",
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.Join(args, "")
			if step == keystore.Retire || step == keystore.Renew {
				if err := confirm(cmd, "The old keys of "+keyPairName(name)+" are deleted. Go on?"); err != nil {
					return err
				}
			}
			in := adminapi.KeyPairRequest{KeyPair: name, Step: step}
			return show(cmd, "/key-pairs/rotate", in, func(p *keystore.Rotation) []string { return keyPairLines(step, p) })
		},
	}
	if step == keystore.Retire || step == keystore.Renew {
		return yesFlag(cmd)
	}
	return cmd
}

func keyPairName(name string) string { return cmp.Or(name, "Gatehouse's own key pair") }

// keyPairLines says what a step has done and what comes next, and has the certificate that others have to know.
func keyPairLines(step keystore.Step, p *keystore.Rotation) (lines []string) {
	argument := p.Name
	if strings.ContainsFunc(p.Name, func(c rune) bool {
		return !strings.ContainsRune("-_.@", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c)
	}) {
		argument = p.ID // which needs no quotes in a shell
	}
	name, next := keyPairName(p.Name), strings.TrimSpace("caddy gatehouse key-pair "+string(p.NextStep)+" "+argument)
	switch step {
	case keystore.Announce:
		lines = []string{"The next keys of " + name + " are published. When everyone knows them: " + next}
	case keystore.Switch:
		former := "The former ones still decrypt. When no one uses them any more: "
		if p.KeyType == keystore.MLDSA { // they only sign
			former = "The former ones are still published. When no one needs them any more: "
		}
		return []string{"The next keys of " + name + " are used. " + former + next}
	case keystore.Retire:
		return []string{"The former keys of " + name + " are removed."}
	default:
		lines = []string{name + " has new keys. Have everyone read the new metadata."}
	}
	shown := p.Current
	if step == keystore.Announce {
		shown = p.Next
	}
	if raw, err := base64.StdEncoding.DecodeString(shown.PublicKey); err == nil {
		lines = append(lines, "SHA-256 "+shown.SHA256, strings.TrimSpace(string(raw)))
	}
	return lines
}
