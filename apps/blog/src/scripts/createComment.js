// Adds a comment to a post and raises the post's counter, both or neither.
// Runs in the logical partition of the post. Arguments: the post's id, the comment.
function createComment(postId, comment) {
  var collection = getContext().getCollection();

  function must(accepted) {
    if (!accepted) throw new Error(503, 'createComment ran out of its time budget; nothing was changed');
  }

  must(collection.readDocument(collection.getAltLink() + '/docs/' + postId, function (err, post) {
    if (err) throw err;
    post.commentCount++;
    must(collection.replaceDocument(post._self, post, { etag: post._etag }, function (err) {
      if (err) throw err;
      comment.postId = postId;
      must(collection.createDocument(collection.getSelfLink(), comment, function (err) {
        if (err) throw err;
        getContext().getResponse().setBody({ commentCount: post.commentCount });
      }));
    }));
  }));
}
