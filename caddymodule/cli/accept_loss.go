package cli

import (
	"context"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// lossAccepter is a storage module whose database can be replaced by one that lacks what was answered.
type lossAccepter interface {
	// AcceptLoss lets the servers go on, runs after in the same transaction, and returns what was lost.
	AcceptLoss(ctx context.Context, after func(storage.Tx) error) (what string, err error)
}

func acceptLossCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "accept-loss",
		Short: "Lets the servers go on after their database has lost what they had answered",
		Long: `After a failover of the database to a standby that lacked the last writes, or a restore of an older
state of it, all servers answer 503 and none starts: what was revoked in those writes would be valid
again. Bring the right database back if you can: the servers go on by themselves. If you cannot, this
command lets them go on with what there is. It ends all tokens and sessions, so everyone signs in
again, and writes an event.

It opens the storage of --config itself, whether servers run or not, and needs the environment that
they have, such as DATABASE_URL.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := caddy.NewContext(caddy.Context{Context: cmd.Context()})
			defer cancel()
			s, err := storageToRestore(ctx, cmd, "")
			if err != nil {
				return err
			}
			accepter, ok := s.(lossAccepter)
			if !ok {
				return fmt.Errorf("storage %s belongs to one server, which notices itself when something is missing: there is nothing to accept",
					s.Place())
			}
			after, err := adminapi.LossAccepted(ctx)
			if err != nil {
				return err
			}
			what, err := accepter.AcceptLoss(ctx, after)
			if err != nil {
				return fmt.Errorf("storage %s: %w", s.Place(), err)
			}
			return printResult(cmd, map[string]any{"storage": s.Place(), "lost": what, "sessions_ended": true},
				"accepted: "+what, "Older tokens and sessions are ended. Servers that run go on within seconds; start the others.")
		},
	}
}
