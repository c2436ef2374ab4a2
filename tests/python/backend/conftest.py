"""With DEVICE=ghost or cuda in the environment the tests of this folder make their tensors on
devices (backend_ranks.py). What is of the CPU's memory is left out then."""

import pytest
from backend_ranks import DEVICE

# Names of files, of tests, and of what tests are given (with brackets), and why.
OF_THE_CPU = {
    "test_backend_layouts": "compares with gloo",
    "test_mixed_with_gloo_in_one_process": "compares with gloo",
    "test_backend_resources": "counts what groups on the CPU cost",
    "test_backend_shared": "memory that the ranks of a host read in place",
    "test_equal_layouts_are_moved_as_they_lie": "memory in the order of its strides",
    "test_other_sizes_on_one_rank": "small tensors go together on the CPU only",
    "test_backend_sparse": "sparse tensors are of the CPU",
    "test_data_parallel_with_sparse_gradients": "sparse tensors are of the CPU",
    "[sparse]": "sparse tensors are of the CPU",
    "[sparse_sums]": "sparse tensors are of the CPU",
    "test_group_in_a_forked_child": "a child must not touch a device",
    "test_data_loading_processes": "a child must not touch a device",
    "test_the_others_hear_at_once": "tensors that are made before the ranks",
    "test_future_holds_the_outputs": "a Future of a device is complete at once",
    "test_future_is_complete_after_wait": "a Future of a device is complete at once",
    "test_future_of_a_failed_call_raises_what_wait_raises": "it was complete before the error",
    "test_callbacks_run_in_the_state_of_the_call": "callbacks run where they are added",
    "test_callback_does_not_stop_other_calls": "callbacks run where they are added",
    "test_callbacks_need_no_thread_that_starts_late": "streams of the double are threads",
    "test_two_groups_in_swapped_order": "on one stream they would wait for each other for ever",
    "[in_a_thread_of_its_own]": "the default device of torch is that of a thread",
    "[from_another_thread]": "the default device of torch is that of a thread",
    "[behind_another_thread]": "the default device of torch is that of a thread",
}


def pytest_collection_modifyitems(items) -> None:
    for item in items if DEVICE != "cpu" else []:
        given = item.name.partition("[")[2].rstrip("]").split("-")
        names = {item.path.stem, item.originalname, *(f"[{word}]" for word in given)}
        for name in names & OF_THE_CPU.keys():
            item.add_marker(pytest.mark.skip(reason=OF_THE_CPU[name]))
