package main

import "gearshift/cmd/gearshift/cli"

// The helpers of package cli by short names, for the commands of this package.
var (
	group        = cli.Group
	noSubcommand = cli.NoSubcommand
	one          = cli.One
	scenarioFlag = cli.ScenarioFlag
	storeFlag    = cli.StoreFlag
	engineFlag   = cli.EngineFlag
	fromLogFlag  = cli.FromLogFlag
	refuseFlags  = cli.RefuseFlags
	checkSeeds   = cli.CheckSeeds
	keyFrom      = cli.KeyFrom
	defaultStore = cli.DefaultStore
)

const storeUsage = cli.StoreUsage
