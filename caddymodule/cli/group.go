package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatehouse-id/gatehouse/caddymodule/adminapi"
	"github.com/gatehouse-id/gatehouse/identity/person"
)

func groupCommands() *cobra.Command {
	return group("group", "Adds, lists, changes and removes groups of people; partition\\name is a group of another partition",
		listGroupsCommand(), addGroupCommand(), setGroupCommand(),
		memberCommand("join", "Puts people into a group", func(in *adminapi.GroupRequest, who []string) { in.Add = who }),
		memberCommand("leave", "Takes people out of a group", func(in *adminapi.GroupRequest, who []string) { in.Remove = who }),
		removeGroupCommand())
}

func listGroupsCommand() *cobra.Command {
	partition := ""
	cmd := &cobra.Command{
		Use: "list", Short: "Lists all groups of a partition by name", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := query(map[string]string{"partition": partition})
			return printList(cmd, "/groups", q, 0, "group", []string{"NAME", "MEMBERS", "PERMISSIONS", "ID"}, func(g *person.Group) []string {
				return []string{g.Name, strconv.FormatInt(g.Members, 10), strings.Join(g.Permissions, ","), g.ID}
			})
		},
	}
	cmd.Flags().StringVar(&partition, "partition", "", "The partition. Default: the one that is called default")
	return cmd
}

func addGroupCommand() *cobra.Command {
	var permissions []string
	cmd := &cobra.Command{
		Use: "add <name>", Short: "Adds a group", Args: cobra.ExactArgs(1),
		Long: `Adds a group without members. A person who is given a group that does not exist
makes it too, without permissions.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.GroupRequest{Group: args[0], Permissions: &permissions}
			return tell(cmd, "/groups", in, func(g *person.Group) string { return fmt.Sprintf("added %s (%s)", g.Name, g.ID) })
		},
	}
	permissionsFlag(cmd, &permissions)
	return cmd
}

func setGroupCommand() *cobra.Command {
	var (
		permissions []string
		name        string
	)
	cmd := &cobra.Command{
		Use: "set <name or id>", Short: "Changes a group's name or permissions", Args: cobra.ExactArgs(1),
		Long: `Changes what a group is called, or replaces its permissions. The claim groups,
protect and headers name a group: sites that name it must be changed with it.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.GroupRequest{Group: args[0], Name: name}
			if cmd.Flags().Changed("permissions") {
				in.Permissions = &permissions
			}
			return changeGroup(cmd, in)
		},
	}
	permissionsFlag(cmd, &permissions)
	cmd.Flags().StringVar(&name, "name", "", "The new name")
	return cmd
}

func permissionsFlag(cmd *cobra.Command, to *[]string) {
	cmd.Flags().StringSliceVar(to, "permissions", nil, "What introspection tells in group_permissions, with commas between")
}

func memberCommand(use, short string, set func(*adminapi.GroupRequest, []string)) *cobra.Command {
	return &cobra.Command{
		Use: use + " <group> <username or id>...", Short: short, Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := adminapi.GroupRequest{Group: args[0]}
			set(&in, args[1:])
			return changeGroup(cmd, in)
		},
	}
}

func changeGroup(cmd *cobra.Command, in adminapi.GroupRequest) error {
	return show(cmd, "/groups/change", in, func(g *adminapi.GroupAnswer) (lines []string) {
		for _, w := range g.Warnings {
			lines = append(lines, "warning: "+w)
		}
		return append(lines, fmt.Sprintf("%s: %s, permissions: %s", g.Name, count(int(g.Members), "member"), strings.Join(g.Permissions, ",")))
	})
}

func removeGroupCommand() *cobra.Command {
	return &cobra.Command{
		Use: "remove <name or id>", Short: "Takes everyone out of a group and removes it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return do(cmd, "/groups/remove", adminapi.GroupRequest{Group: args[0]}, "removed "+args[0])
		},
	}
}
