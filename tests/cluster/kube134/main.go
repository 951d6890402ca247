// Command kube is the control plane of the oldest Kubernetes that Modelway supports, in one binary:
//
//	kube etcd|apiserver|controller-manager|scheduler [flags]
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

var commands = map[string]func() *cobra.Command{
	"apiserver":          apiserver.NewAPIServerCommand,
	"controller-manager": kcm.NewControllerManagerCommand,
	"scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kube etcd|apiserver|controller-manager|scheduler [flags]")
		os.Exit(2)
	}
	os.Args = os.Args[1:] // each command reads os.Args itself
	if os.Args[0] == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command := commands[os.Args[0]]
	if command == nil {
		fmt.Fprintf(os.Stderr, "kube: no command %q\n", os.Args[0])
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
