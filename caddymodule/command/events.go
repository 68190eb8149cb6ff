package command

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
)

func eventCommands() *cobra.Command {
	return group("events", "Checks the events that were written", verifyEventsCommand())
}

func verifyEventsCommand() *cobra.Command {
	var anchors []string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Checks that no event was changed, removed or inserted",
		Long: `Checks the chain of blocks in which the events are sealed, for each partition, and apart for the
tokens of clients alone. It says up to where the events are sealed, and finds what was changed,
removed or inserted before. The exit status is 0 only when all is sound.

An attacker who can write all of the storage can also rebuild the chain. Keep the heads that are
printed in another place, and give them as --anchor: then that is found too.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answer verifyAnswer
			if err := call(cmd, "/events/verify?"+url.Values{"anchor": anchors}.Encode(), nil, &answer); err != nil {
				return err
			}
			if err := printResult(cmd, answer, verifyLines(answer)...); err != nil {
				return err
			}
			if !answer.Sound {
				return errors.New("the events are not sound")
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&anchors, "anchor", nil, "A head that was printed before, as `chain@block:hash`; may be given several times")
	return cmd
}

func verifyLines(answer verifyAnswer) []string {
	if len(answer.Chains) == 0 {
		return []string{"there are no events"}
	}
	var lines []string
	for _, v := range answer.Chains {
		lines = append(lines, fmt.Sprintf("%s: %s events in %s blocks", v.Chain, humanize.Comma(int64(v.Events)), humanize.Comma(int64(v.Blocks)))) //nolint:gosec // no chain is that long
		if v.From > 1 {
			lines = append(lines, fmt.Sprintf("  begins      with event %d, those before were collected by %s", v.From, v.CutAt.Format(time.RFC3339)))
		}
		if v.Blocks > 0 {
			lines = append(lines, fmt.Sprintf("  sealed      through event %d, at %s", v.Sealed, v.SealedAt.Format(time.RFC3339)), "  head        "+v.Chain+"@"+v.Head)
		}
		if v.Unsealed > 0 {
			lines = append(lines, fmt.Sprintf("  not sealed  %d events behind", v.Unsealed))
		}
		for _, p := range v.Problems {
			lines = append(lines, "  WRONG       "+p)
		}
	}
	if answer.Sound {
		lines = append(lines, "sound")
	}
	return lines
}
