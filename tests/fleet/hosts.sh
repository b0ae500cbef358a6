#!/bin/sh
# Hosts as network namespaces, for root: hosts.sh PREFIX up | cut HOST | mend HOST | down
# The switch between them has a namespace of its own: nothing touches the network of this machine.
# Hosts: srv (10.77.0.2), co (10.77.0.3), w0 and w1 (10.77.0.10, .11).
set -u
prefix=$1
case $2 in
up)
    set -e
    ip netns add "${prefix}sw"
    ip -n "${prefix}sw" link add br0 type bridge
    ip -n "${prefix}sw" link set br0 up
    for pair in srv:2 co:3 w0:10 w1:11; do
        host=${pair%%:*}
        ip netns add "$prefix$host"
        ip link add "v$host" netns "${prefix}sw" type veth peer name eth0 netns "$prefix$host"
        ip -n "${prefix}sw" link set "v$host" master br0 up
        ip -n "$prefix$host" addr add "10.77.0.${pair##*:}/24" dev eth0
        ip -n "$prefix$host" link set eth0 up
        ip -n "$prefix$host" link set lo up
    done ;;
cut) ip -n "${prefix}sw" link set "v$3" down ;;
mend) ip -n "${prefix}sw" link set "v$3" up ;;
down) for host in srv co w0 w1 sw; do ip netns del "$prefix$host" 2>/dev/null; done ;;
esac
