package reference

// Admin are the holders of a role in the admin console.
var Admin = Block{
	Head: "admin [<username>…]", Open: "admin ann@example.com", Bare: true,
	Text:   "Who has a role in the [admin console](console.md), which is on with this word unless `admin_console off` stands here too. The names are those of owners: an account that does not exist is created without a password, and `caddy gatehouse admin invite` prints a link for its first sign-in. Other people get roles by groups.",
	Sample: "level 3",
	Options: []Option{
		{
			Word: "level", Arguments: "1|2|3|4", Default: "`2`", Text: "The authentication level that a session needs in the console.",
			Example: "level 3",
		},
		{
			Word: "viewer", Arguments: "<group>", Default: "`gatehouse-viewer`", Text: "The group of those who see everything and change nothing.",
			Example: "viewer auditors",
		},
		{
			Word: "helpdesk", Arguments: "<group>", Default: "`gatehouse-helpdesk`",
			Text: "The group of the administrators of people without a role.", Example: "helpdesk support",
		},
		{
			Word: "operator", Arguments: "<group>", Default: "`gatehouse-operator`",
			Text: "The group of the administrators of groups and applications, too.", Example: "operator platform",
		},
		{
			Word: "owner", Arguments: "<group>", Default: "`gatehouse-owner`", Text: "The group of the administrators of people with a role, too.",
			Example: "owner admins",
		},
		{
			Word: "see_as", Arguments: "off|operator|owner", Default: "`off`",
			Text: "Who can look at the account of someone of lower rank, as that person sees it: for 15 minutes, with a reason, without changing anything, and the person gets an e-mail. `operator`: operators and owners. `owner`: owners alone.", Example: "see_as owner",
		},
	},
}
