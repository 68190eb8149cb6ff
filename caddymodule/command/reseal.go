package command

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
)

// Resealed is what was sealed with the first encryption key in place of an older one.
type Resealed struct {
	Older       bool   `json:"older_keys"` // whether the configuration has any
	People      int    `json:"people"`     // that were looked at
	Sealed      int    `json:"sealed"`     // secrets of theirs
	SigningKeys int    `json:"signing_keys"`
	Left        int    `json:"left"`           // secrets that no key of the configuration opens
	Next        string `json:"next,omitempty"` // the value of after for the next part
}

// Add adds a further part.
func (r *Resealed) Add(part Resealed) {
	r.Older, r.Next = part.Older, part.Next
	r.People += part.People
	r.Sealed += part.Sealed
	r.SigningKeys += part.SigningKeys
	r.Left += part.Left
}

// Verdict says whether older keys can go.
func (r *Resealed) Verdict() string {
	switch {
	case r.Left > 0:
		return "no encryption key of the configuration opens some secrets: add the key that sealed them"
	case r.Older:
		return "older encryption keys can be removed once sessions of before have ended, and clients added by command before have new secrets"
	}
	return "the configuration has one encryption key, which has sealed everything"
}

// resealRequest is which part comes next.
type resealRequest struct {
	After string `json:"after"`
}

func adminReseal(i *Instance, r *http.Request, in resealRequest) (any, error) {
	return i.Reseal(r.Context(), in.After)
}

func resealCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reseal", Short: "Seals with the first encryption key what an older one has sealed", Args: cobra.NoArgs,
		Long: `Seals signing keys, settings, key pairs, and the secrets of authenticator apps and PINs with the first
encryption key, where an older one has sealed them, and says whether older keys can be removed from
the Caddyfile. The server does the same by itself after a start with several keys.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all Resealed
			for {
				var part Resealed
				if err := call(cmd, "/keys/reseal", resealRequest{all.Next}, &part); err != nil {
					return err
				}
				if all.Add(part); all.Next == "" {
					break
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%s looked at\n", count(all.People, "person"))
			}
			return printResult(cmd, all,
				fmt.Sprintf("Sealed anew: %s, %s of %s.", count(all.SigningKeys, "signing key"), count(all.Sealed, "secret"), count(all.People, "person")),
				fmt.Sprintf("Opened by no key: %s.", count(all.Left, "secret")), "In short, "+all.Verdict()+".")
		},
	}
}
